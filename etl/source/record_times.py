"""Records by their times, where only data records count: no transaction marker, and under read_committed no record of
an aborted transaction.

A lookup by time (`Logs.first_at`) counts those as records. A marker carries the time at which its transaction ended,
so behind records that are older than the clock (an import, a pipeline that lags) it is the first record at or after
nearly every time. So what a lookup finds is read, and where it does not count, the records behind it are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.logs import Logs
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.record_chunk import OnCorruption
from kseg.segment_reader.log.scan.positions import TimedOffset

# The reader is imported where records are read: most questions about an interval are answered without, and loading the
# decoder takes longer than the answer.
_BYTES_AT_ONCE = 64 * 1024
"""Most bytes to fetch of each partition for a single record. A response has its whole batch, however large it is."""


class RecordAddress(NamedTuple):
    """An offset of a partition."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class DataRecords:
    """Reads data records' times from logs. Raises as `Logs` and `RangeReader` do, but for offsets that are gone."""

    logs: Logs
    isolation_level: IsolationLevel = "read_committed"
    on_corruption: OnCorruption = "fail"

    @property
    def _options(self) -> DecodeOptions:
        return DecodeOptions(
            isolation_level=self.isolation_level,
            headers=False,
            on_data_loss="record",
            on_corruption=self.on_corruption,
        )

    def at(self, addresses: Collection[RecordAddress]) -> dict[RecordAddress, int]:
        """The timestamps of data records at these offsets (ms; -1 for a record without one), by offset."""
        if not addresses:
            return {}
        from kseg.etl.source.reader import readers

        tasks = self.logs.tasks(
            [OffsetRange(*tp, offset, offset + 1) for tp, offset in sorted(set(addresses))],
            topics={tp.topic: None for tp, _ in addresses},
        )
        origin = self.logs.origin
        if not isinstance(origin, LogFiles):
            origin = replace(origin, max_partition_fetch_bytes=min(origin.max_partition_fetch_bytes, _BYTES_AT_ONCE))
        found: dict[RecordAddress, int] = {}
        with readers(tasks, origin, self._options) as reader:
            for task in tasks:
                for batch in reader(task, None):
                    tp = task.tp
                    times = _millis(batch).to_pylist()
                    found |= {
                        RecordAddress(tp, offset): time
                        for offset, time in zip(batch.column("offset").to_pylist(), times, strict=True)
                    }
        return found

    def read(self, tp: TopicPartition, start: int, end: int) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        """Offsets and timestamps (ms, -1 for none) of the data records in `[start, end)`, in batches."""
        if start >= end:
            return
        from kseg.etl.source.reader import RangeReader

        for task in self.logs.tasks([OffsetRange(*tp, start, end)], topics={tp.topic: None}):
            for batch in RangeReader(task, self.logs.origin, self._options):
                yield batch.column("offset"), _millis(batch)

    def older_than(self, before: int, ranges: Mapping[TopicPartition, tuple[int, int]]) -> set[TopicPartition]:
        """The partitions whose offsets `[start, end)` hold a data record with a time before this one (ms)."""
        filled = {tp: ends for tp, ends in ranges.items() if ends[0] < ends[1]}
        firsts = self.at([RecordAddress(tp, start) for tp, (start, _) in filled.items()])
        older = {tp for (tp, _), time in firsts.items() if 0 <= time < before}
        for tp, (start, end) in filled.items():
            if tp not in older and self._has_older(tp, start, end, before):
                older.add(tp)
        return older

    def _has_older(self, tp: TopicPartition, start: int, end: int, before: int) -> bool:
        for _, times in self.read(tp, start, end):
            if pc.any(pc.and_(pc.greater_equal(times, 0), pc.less(times, before))).as_py():
                return True
        return False

    def first_passing(
        self, tp: TopicPartition, start: int, end: int, *, at: int, passing: int, limit: int
    ) -> tuple[int | None, bool, TimedOffset | None]:
        """Reads `[start, end)` up to the first record with a time in `[passing, limit]`.

        Returns:
            The offset of the first record with a time in `[at, limit]`, None if there is none; whether one passes; and
            the first record behind the limit that was passed over.
        """
        first: int | None = None
        ahead: TimedOffset | None = None
        for offsets, times in self.read(tp, start, end):
            if ahead is None and len(beyond := pc.indices_nonzero(pc.greater(times, limit))):
                at_row = beyond[0].as_py()
                ahead = TimedOffset(offsets[at_row].as_py(), times[at_row].as_py())
            counts = pc.and_(pc.greater_equal(times, at), pc.less_equal(times, limit))
            if first is None and len(hits := pc.indices_nonzero(counts)):
                first = offsets[hits[0].as_py()].as_py()
            if pc.any(pc.and_(counts, pc.greater_equal(times, passing))).as_py():
                return first, True, ahead
        return first, False, ahead


def _millis(batch: pa.RecordBatch) -> pa.Int64Array:
    return pc.fill_null(pc.divide(batch.column("timestamp").cast("int64"), 1000), -1)
