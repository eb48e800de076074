"""A task's range from files, as answers: the counterpart of `fetching`.

The files may be in use. Segments that are merged, or removed, while they are read lead to a new listing of the folder,
and on from where reading was: what was handed on before stays true, since records never change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from kseg.etl.source.errors import OffsetsLost, TopicRecreated
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.range_result import LostRange
from kseg.etl.source.record_chunk import FetchOptions, FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.log.damage.damage import Damage
from kseg.segment_reader.log.damage.salvage import Salvager
from kseg.segment_reader.log.errors import LogDamaged, LogEndsEarly, SegmentGone
from kseg.segment_reader.log.files.segments import PartitionLog, changed_log, open_log
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.record_sets import record_sets

#: Times that files of a log may change under a task before it has read on.
_TRIES: Final = 10


def read_chunks(
    task: RangeTask, files: LogFiles, options: FetchOptions, stats: FetchStats
) -> Generator[RecordChunk, None, None]:
    """All record sets that the task needs, from the files in `task.folder`. Each is valid until the next.

    Raises:
        OffsetsLost: offsets are gone, unless they are to be recorded.
        TopicRecreated: the files' topic id is another than the task's.
        LogFileError: the files cannot be read.
    """
    if task.start >= task.end:
        return
    storage, folder = files.open_folder(task.folder)
    start = task.start
    error: SegmentGone | LogDamaged | None = None
    log = _opened(storage, folder, task)
    _check_topic(log, task, start)
    tries = _TRIES
    while start < task.end:
        first = log.segments[0].base_offset if log.segments else task.end
        if first > start:
            lost = LostRange(start, min(first, task.end), "retention")
            if options.on_data_loss == "fail":
                raise OffsetsLost(task.topic, task.partition, lost.first, lost.last, lost.reason) from error
            stats.lost.append(lost)
            start = lost.last
            yield RecordChunk.empty(start)
        before = start
        try:
            for answer in _of_log(storage, log, task, start, options):
                stats.fetches += bool(answer.records)
                stats.bytes += len(answer.records)
                start = max(start, answer.next_offset)
                yield answer
            return
        except LogEndsEarly as early:
            again = _listed_anew(storage, folder, task)
            if tries and _paths(again) != _paths(log):
                log, tries = again, tries - 1
                _check_topic(log, task, start)
                continue
            if options.on_data_loss == "fail":
                raise OffsetsLost(task.topic, task.partition, early.offset, task.end, "truncation") from early
            stats.lost.append(LostRange(max(start, early.offset), task.end, "truncation"))
            yield RecordChunk.empty(task.end)
            return
        except (SegmentGone, LogDamaged) as changed:
            tries = _TRIES if start > before else tries - 1
            if not tries:
                raise
            log, error = changed_log(storage, log, changed), changed
            _check_topic(log, task, start)


def _opened(storage: Storage, folder: str, task: RangeTask) -> PartitionLog:
    """The log with the task's topic and start, if the storage has it.

    A layout keeps its map of partitions until the folder around them is listed, and a worker keeps the layout from task
    to task. So the map may be older than the task: without its partition, or with the one of a deleted topic. Where a
    partition's segments lie in several places, the last ones may be missing, which shows at the log's end.
    """
    try:
        log = open_log(storage, folder, task.topic, task.partition)
        if not _is_other_topic(log, task) and log.segments and log.segments[0].base_offset <= task.start:
            return log
    except SegmentGone:
        pass
    return _listed_anew(storage, folder, task)


def _listed_anew(storage: Storage, folder: str, task: RangeTask) -> PartitionLog:
    storage.list(folder.rpartition("/")[0])
    return open_log(storage, folder, task.topic, task.partition)


def _paths(log: PartitionLog) -> list[str]:
    return [segment.path for segment in log.segments]


def _is_other_topic(log: PartitionLog, task: RangeTask) -> bool:
    return log.topic_id is not None and task.topic_id is not None and log.topic_id != task.topic_id


def _check_topic(log: PartitionLog, task: RangeTask, offset: int) -> None:
    if _is_other_topic(log, task):
        found = f"the topic was deleted and created again: its id was {task.topic_id}, the files have {log.topic_id}"
        raise TopicRecreated(task.topic, task.partition, offset, found)


def _of_log(
    storage: Storage, log: PartitionLog, task: RangeTask, start: int, options: FetchOptions
) -> Iterator[RecordChunk]:
    """From an offset of the task on, as the log was listed. Raises LogFileError."""
    committed = options.isolation_level == "read_committed"
    if options.on_corruption == "fail":
        for found in record_sets(
            storage, log, start, task.end, read_committed=committed, start_hint=task.start_hint, end_hint=task.end_hint
        ):
            yield RecordChunk(found.records, found.aborted, found.next_offset, found.file, found.position)
        return
    for item in Salvager(storage, log).sets(start, task.end, read_committed=committed):
        if isinstance(item, Damage):
            yield RecordChunk(memoryview(b""), [], item.last, item.file, item.position, item)
        else:
            yield RecordChunk(item.records, item.aborted, item.next_offset, item.file, item.position)
