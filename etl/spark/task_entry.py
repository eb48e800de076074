"""What a task does with the rows that it has read, where none of them leaves it: write them, or drop them.

A module of its own, since workers load what is named here: the configuration and delta-rs would cost each new worker a
quarter of a second, and no task needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kseg.etl.spark.dataframe import TaskAttempt
from kseg.etl.spark.error_transport import ErrorTransport
from kseg.etl.spark.narrowing import Restoring
from kseg.etl.spark.selection import Selection
from kseg.etl.tables.parquet.writer import LandingPlan, land


class Writer:
    """Lands a task's rows; picklable. selection: makes them from those that it is given."""

    def __init__(self, plan: LandingPlan, selection: Selection | None = None) -> None:
        self.plan, self.selection = plan, selection

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        rows = batches if self.selection is None else map(self.selection.apply, batches)
        return land(rows, self.plan, task=attempt.number, attempt=attempt.attempt_id)


def landing_function(
    plan: LandingPlan, transport: ErrorTransport, restoring: Restoring | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`land` for `DataFrame.mapInArrow(landing_function(plan, transport), TASK_OUTPUT_DDL)`.

    transport: carries its errors to the driver. restoring: makes the rows from what crosses.
    """

    def land_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        rows = batches if restoring is None else map(restoring.apply, batches)
        with transport.packing():
            yield from land(rows, plan, task=task, attempt=attempt)

    return land_partition


def drop(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Reads a task's rows to their end, and returns no outputs; only the range result counts."""
    for _ in batches:
        pass
    return iter(())
