"""Records that the driver holds in memory, such as dead letters, in place of a log as the origin of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """of_task: the records of each task by its index, one for each offset of its range, with the columns of a read."""

    of_task: Sequence[pa.RecordBatch]

    def reader(self, task: RangeTask, _keep: object) -> HeldReader:
        """The reader of a task's records, which has the same interface as `RangeReader`."""
        return HeldReader(task, self.of_task[task.index])


@dataclass(frozen=True, slots=True)
class HeldReader:
    """Iterates the records of one task."""

    task: RangeTask
    records: pa.RecordBatch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield self.records

    @property
    def result(self) -> RangeResult:
        task, rows = self.task, self.records.num_rows
        return RangeResult(task.index, task.topic, task.partition, task.start, task.end, data=rows, rows=rows)
