"""Functions that receive a task's rows: they write them to files, drop them, or return them.

Workers load what is named here: the configuration and delta-rs would cost each new worker a quarter of a second, and no
task needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kseg.etl.tables.parquet.writer import LandingPlan, land
from kseg.etl.tasks.packs import TaskAttempt


class Writer:
    """Lands a task's rows; picklable. select: makes them from those that it is given."""

    def __init__(self, plan: LandingPlan, select: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None) -> None:
        self.plan, self.select = plan, select

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        rows = batches if self.select is None else map(self.select, batches)
        return land(rows, self.plan, task=attempt.number, attempt=attempt.attempt_id)


def drop(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Reads a task's rows to their end, and returns no outputs; only the range result counts."""
    for _ in batches:
        pass
    return iter(())


def hand_over(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Returns the rows themselves as outputs: for few rows, which the driver needs."""
    return batches
