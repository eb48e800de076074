"""A range's record sets from the files of one partition, one after the other: what `fetching` is for brokers."""

from __future__ import annotations

from collections.abc import Generator

from etl.source.answer import Answer, FetchOptions, FetchStats
from etl.source.errors import OffsetsLost
from etl.source.files import LogFiles
from etl.source.outcome import LostRange
from etl.source.tasks import RangeTask
from segment_reader.log.damage import Damage
from segment_reader.log.errors import LogEndsEarly
from segment_reader.log.reading import RecordSet, record_sets
from segment_reader.log.salvage import Salvager
from segment_reader.log.segments import open_log


def answers(
    task: RangeTask, files: LogFiles, options: FetchOptions, stats: FetchStats
) -> Generator[Answer, None, None]:
    """All record sets that the task needs, from the files in `task.folder`. Each is valid until the next.

    Raises:
        OffsetsLost: offsets are gone, unless they are to be recorded.
        LogFileError: the files cannot be read.
    """
    if task.start >= task.end:
        return
    storage, folder = files.open_folder(task.folder)
    log = open_log(storage, folder, task.topic, task.partition)
    start = task.start
    first = log.segments[0].base_offset if log.segments else task.end
    if first > start:
        lost = LostRange(start, min(first, task.end), "retention")
        if options.on_data_loss == "fail":
            raise OffsetsLost(task.topic, task.partition, lost.first, lost.last, lost.reason)
        stats.lost.append(lost)
        start = lost.last
        yield Answer.empty(start)
    committed = options.isolation_level == "read_committed"
    found: RecordSet | Damage
    try:
        if options.on_corruption == "quarantine":
            for found in Salvager(storage, log).sets(start, task.end, read_committed=committed):
                if isinstance(found, Damage):
                    yield Answer(memoryview(b""), [], found.last, found.file, found.position, found)
                    continue
                stats.fetches += 1
                stats.bytes += len(found.records)
                yield Answer(found.records, found.aborted, found.next_offset, found.file, found.position)
            return
        for found in record_sets(
            storage, log, start, task.end, read_committed=committed, begins=task.begins, stops=task.stops
        ):
            stats.fetches += 1
            stats.bytes += len(found.records)
            yield Answer(found.records, found.aborted, found.next_offset, found.file, found.position)
    except LogEndsEarly as error:
        if options.on_data_loss == "fail":
            raise OffsetsLost(task.topic, task.partition, error.offset, task.end, "truncation") from error
        stats.lost.append(LostRange(max(start, error.offset), task.end, "truncation"))
        yield Answer.empty(task.end)
