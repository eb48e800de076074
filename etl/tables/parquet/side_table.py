"""Tables beside the rows: what tasks set aside (damaged bytes, dead letters) lands in a table of its own.

    quarantine      bytes that are no records      `etl.tables.parquet.quarantine`
    dead letters    records that have no row       `etl.decoding.bad_records`

The files are written by the tasks and committed by the driver with the run's app transaction before any row; no commit
names a retried task's files. This module runs in workers and imports neither Spark nor delta-rs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.parquet.writer import LandingPlan, TaskWriter


class TaskFiles:
    """The files that one attempt at one task writes to a table beside. There are none before there is a row."""

    wants_reasons = True

    def __init__(self, plan: LandingPlan, task: int, attempt: int) -> None:
        self._writer = TaskWriter(plan, task=task, attempt=attempt)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def close(self) -> tuple[str, ...]:
        """The finished files, as JSON: they travel with the range result."""
        return tuple(json.dumps(asdict(file)) for file in self._writer.close())

    def abort(self) -> None:
        """Delete what was written."""
        self._writer.abort()


@dataclass(frozen=True, slots=True)
class DeadLetterTable:
    """The table into which a run's tasks write dead letters. Picklable.

    plan: None where the table has landed: they are counted alone. most: how many the run may have, at most.
    """

    plan: LandingPlan | None
    most: int | None = None


def kept_files(outcomes: Iterable[RangeResult], table: str) -> list[WrittenFile]:
    """The files that the tasks of these outcomes wrote to a table beside. table: where it lies."""
    files = (WrittenFile(**json.loads(file)) for outcome in outcomes for file in outcome.kept)
    return [file for file in files if file.table == table]
