"""Reads the ranges of tasks in the worker as Arrow record batches, with limited memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.source.brokers.prefetch import fetch_chunks, prefetch
from kseg.etl.source.brokers.prefetch_many import RangesTogether
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OutOfMemoryError
from kseg.etl.source.origin import LogFiles, Origin
from kseg.etl.source.range_result import MAX_DAMAGES, LostRange, RangeResult
from kseg.etl.source.record_chunk import FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.absent_offsets import AbsentOffsets
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.salvage import BadBatch, RefusedRecord, SalvagingDecoder
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.damage.damage import Damage, damaged_bytes, pieces_of

T = TypeVar("T")


class Keep(Protocol):
    """Writes damaged bytes. Created for one task."""

    def keep(self, damage: Damage, pieces: Iterator[bytes]) -> None:
        """Write one damage with its bytes, in pieces of limited size."""

    def close(self) -> tuple[str, ...]:
        """Finish; returns the data that the driver needs to commit the files."""

    def abort(self) -> None:
        """The task has failed: files that were written are left uncommitted."""


Decoder = RangeDecoder | SalvagingDecoder
MakeDecoder = Callable[[RangeTask, Origin, DecodeOptions], Decoder]


def decoder_of(task: RangeTask, origin: Origin, options: DecodeOptions) -> Decoder:
    """The decoder of a task's range."""
    make = SalvagingDecoder if options.on_corruption == "quarantine" else RangeDecoder
    return make(
        task.topic,
        task.partition,
        task.start,
        task.end,
        isolation_level=options.isolation_level,
        headers=options.headers,
        raw_headers=options.raw_headers,
        header_names=options.header_names,
        provenance=options.provenance,
        null_timestamps=options.null_timestamps,
        # Files past damage come with their checksums compared: what is damaged follows from them.
        check_crcs=options.check_crcs and not (make is SalvagingDecoder and isinstance(origin, LogFiles)),
        engine=options.engine,
        limits=options.limits,
    )


@contextmanager
def readers(
    tasks: Sequence[RangeTask], origin: Origin, options: DecodeOptions
) -> Iterator[Callable[[RangeTask, Keep | None], RangeReader]]:
    """Makes the `RangeReader` of each of these tasks, which are read in order: several ranges with common requests, if
    separate reading is not better."""
    if len(tasks) < 2 or isinstance(origin, LogFiles):
        yield lambda task, keep: RangeReader(task, origin, options, keep)
        return
    with RangesTogether(tasks, origin, options.isolation_level) as together:
        yield lambda task, keep: RangeReader(task, origin, options, keep, together)


class RangeReader:
    """Iterates the rows of one range, in offset order, once; then it has the `result`. No request is sent before.

    keep: receives the damage that this task reports, with `on_corruption: quarantine`. together: has the responses for
    this and other small ranges. make_decoder: creates another decoder; its counts are compared with those of the
    headers, too.

    Iterating raises:
        OffsetsLost: offsets no longer exist, and losses are not recorded.
        TopicRecreated: the topic was deleted and created again.
        NoProgress: the broker sends no more records.
        KafkaError: a request to the cluster failed.
        LogFileError: the files cannot be read.
        RecordFormatError: bytes cannot be decoded.
        OutOfMemoryError: the next batch needs more memory than is available.
    """

    def __init__(
        self,
        task: RangeTask,
        origin: Origin,
        options: DecodeOptions,
        keep: Keep | None = None,
        together: RangesTogether | None = None,
        make_decoder: MakeDecoder = decoder_of,
    ) -> None:
        self.task = task
        self._make_decoder = make_decoder
        self._together = together
        self._origin = origin
        self._options = options
        self._keep = keep
        self._damages: list[Damage] = []
        self._result: RangeResult | None = None
        self._late = 0
        self._handed = task.start  # the offset behind the last row that was handed on
        self._file: tuple[str, int] | None = None  # where what is being decoded begins

    @property
    def result(self) -> RangeResult:
        """The result. Raises RuntimeError before the iteration has ended."""
        if self._result is None:
            raise RuntimeError(f"{self.task} has not been read to its end")
        return self._result

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows(self._make_decoder(self.task, self._origin, self._options))
        except MemoryError as error:
            file, position = self._file or (None, None)
            raise OutOfMemoryError.of_reading(
                error,
                topic=self.task.topic,
                partition=self.task.partition,
                offset=self._handed,
                file=file,
                position=position,
            ) from error

    def _rows(self, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        task, options = self.task, self._options
        stats = FetchStats()
        absent = AbsentOffsets(task.start, task.end)
        rows = 0
        waiting, decoding = _Stopwatch(), _Stopwatch()
        with closing(self._answers(stats)) as source:
            for answer in waiting.timed(source):
                self._file = (answer.file, answer.position) if answer.file else None
                if answer.damage is not None:
                    absent.pass_over(max(answer.damage.first, task.start), answer.damage.last)
                    self._pass_over(decoder, answer.damage)
                    continue
                if not answer.records:
                    absent.skip_to(answer.next_offset)
                    decoder.skip_to(min(answer.next_offset, task.end))
                try:
                    for found in decoding.timed(
                        decoder.feed(answer.records, answer.aborted, file=answer.file, position=answer.position)
                    ):
                        if isinstance(found, BadBatch):
                            self._report_batch(found, answer)
                        elif isinstance(found, RefusedRecord):
                            self._report_record(found, answer)
                        else:
                            rows += found.num_rows
                            yield self._with_own_columns(found)
                            self._handed = found.column("offset")[-1].as_py() + 1
                except RecordFormatError as error:
                    if answer.file is None:
                        raise
                    raise _in_file(error, answer.file, answer.position) from error
                if isinstance(decoder, SalvagingDecoder) and decoder.damaged:
                    absent.leave_to_decoder(decoder.next_offset)
                else:
                    absent.feed(answer.records)
                del answer
        for batch in decoding.timed(decoder.finish()):
            rows += batch.num_rows
            yield self._with_own_columns(batch)
        result = _range_result(task, decoder, stats, waiting.seconds, decoding.seconds, options.max_gaps)
        self._result = replace(
            result,
            absent=absent.count(decoder.gaps),
            rows=rows,
            damages=tuple(self._damages[:MAX_DAMAGES]),
            damage_count=len(self._damages),
            late=self._late,
            kept=self._keep.close() if self._keep is not None else (),
        )

    def _pass_over(self, decoder: Decoder, damage: Damage) -> None:
        """Skip damage in a file whose bytes still exist."""
        assert isinstance(decoder, SalvagingDecoder)
        decoder.pass_over(max(damage.first, self.task.start), damage.last)
        assert isinstance(self._origin, LogFiles)
        storage, _ = self._origin.open_folder(self.task.folder)
        self._report_damage(damage, damaged_bytes(storage, damage))

    def _report_batch(self, bad: BadBatch, answer: RecordChunk) -> None:
        """Report a batch in a response whose records cannot be decoded."""
        data = answer.records[bad.position : bad.position + bad.size]
        position = answer.position + bad.position if answer.file else -1
        damage = Damage(answer.file or "", position, bad.size, bad.first, bad.last, bad.reason, hides_marker=False)
        self._report_damage(damage, pieces_of(data))

    def _report_record(self, refused: RefusedRecord, answer: RecordChunk) -> None:
        """Report a record that has no row, with its own bytes. position: of its batch."""
        position = answer.position + refused.position if answer.file else -1
        size, offset = len(refused.content), refused.offset
        damage = Damage(answer.file or "", position, size, offset, offset + 1, refused.reason, hides_marker=False)
        self._report_damage(damage, pieces_of(refused.content))

    def _report_damage(self, damage: Damage, pieces: Iterator[bytes]) -> None:
        if damage.belongs_to(self.task.start, self.task.end, leads=self.task.leads):
            self._damages.append(damage)
            if self._keep is not None:
                self._keep.keep(damage, pieces)

    def _answers(self, stats: FetchStats) -> Generator[RecordChunk, None, None]:
        options = self._options
        wanted = options.fetch
        if isinstance(self._origin, LogFiles):
            # A file's answers share one buffer, so none may be read ahead; the page cache has no latency to hide.
            from kseg.etl.source.files import chunks  # workers that read from brokers do without

            return chunks.read_chunks(self.task, self._origin, wanted, stats)
        if self._together is not None:
            return self._together.answers(self.task, wanted, stats)
        fetched = fetch_chunks(self.task, self._origin, wanted, stats)
        return prefetch(fetched) if options.fetch_ahead else fetched

    def _with_own_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with kseg's own columns that are requested. Only the bits of `_kseg_late` are computed."""
        options = self._options
        if not (options.addresses or options.marks_late):
            return batch
        columns = [*batch.columns]
        if options.marks_late:
            columns.append(late := late_marks(batch, options.late_before))
            self._late += late.true_count
        if options.addresses:
            columns += [batch.column("topic"), batch.column("partition"), batch.column("offset")]
        return pa.RecordBatch.from_arrays(columns, schema=options.schema)


def late_marks(batch: pa.RecordBatch, before: int | None) -> pa.BooleanArray:
    """Whether each record's timestamp is before a time (ms since 1970); all null if there is no such time."""
    if before is None:
        return pa.nulls(batch.num_rows, pa.bool_())
    return pc.less(batch.column("timestamp"), pa.scalar(before * 1000, pa.timestamp("us", tz="UTC")))


def _in_file(error: RecordFormatError, file: str, position: int) -> RecordFormatError:
    """The error of a record set at a position of a file."""
    address = replace(error.address, file=file, position=position + error.address.position)
    return type(error)(address, error.reason, offset=error.offset)


class _Stopwatch:
    """Seconds spent inside of an iterator, without those of its consumer."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, source: Iterator[T]) -> Iterator[T]:
        while True:
            began = time.perf_counter()
            try:
                item = next(source)
            except StopIteration:
                return
            finally:
                self.seconds += time.perf_counter() - began
            yield item
            del item


def _range_result(
    task: RangeTask, decoder: Decoder, stats: FetchStats, waiting: float, decoding: float, max_gaps: int
) -> RangeResult:
    counts = decoder.counts
    gaps = _without(decoder.gaps, stats.lost)
    return RangeResult(
        index=task.index,
        topic=task.topic,
        partition=task.partition,
        start=task.start,
        end=task.end,
        data=counts.data,
        control=counts.control,
        aborted=counts.aborted,
        unreadable=decoder.unreadable if isinstance(decoder, SalvagingDecoder) else 0,
        batches=counts.batches,
        bytes=stats.bytes,
        gaps=tuple(gaps[:max_gaps]),
        gap_count=len(gaps),
        lost=tuple(stats.lost),
        high_watermark=stats.high_watermark,
        last_stable_offset=stats.last_stable_offset,
        log_start=stats.log_start,
        fetches=stats.fetches,
        waiting=waiting,
        decoding=decoding,
        throttled=tuple(stats.throttled.items()),
    )


def _without(gaps: list[tuple[int, int]], lost: list[LostRange]) -> list[tuple[int, int]]:
    """The gaps without the lost ranges; both are sorted."""
    left = list(gaps)
    for loss in lost:
        left = [
            piece
            for first, last in left
            for piece in ((first, min(last, loss.first)), (max(first, loss.last), last))
            if piece[0] < piece[1]
        ]
    return left
