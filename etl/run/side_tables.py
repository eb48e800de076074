"""Side tables, which a run commits before its rows: damaged bytes, and records that have no row.

    quarantine      `source.on_corruption: quarantine`      etl.tables.parquet.quarantine
    dead letters    `decode.on_error: dead_letter`          etl.decoding.bad_records

A run that was planned without one of them uses the job's, if the user has added it since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kseg.etl.config.job import Job
from kseg.etl.decoding.bad_records import DEAD_LETTERS
from kseg.etl.decoding.errors import TooManyDeadLetters
from kseg.etl.ledger import events as ev
from kseg.etl.run.account import ReadCounts
from kseg.etl.run.nulled import most_nulled
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.quarantine import Quarantine, quarantine_schema
from kseg.etl.tables.parquet.schema import SinkSchema, sink_schema
from kseg.etl.tables.parquet.side_table import DeadLetterTable, kept_files
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.parquet.writer import LandingPlan
from kseg.etl.tables.protocol import FileTarget
from kseg.etl.tables.values import ReadyTable
from kseg.etl.tasks.packs import Beside


@dataclass(frozen=True, slots=True)
class SideTable:
    """One of the two, ready to take rows."""

    table: str
    target: FileTarget
    ready: ReadyTable
    sink: SinkSchema

    def plan(self, owner: FileOwner) -> LandingPlan:
        """The plan with which tasks write its files."""
        return LandingPlan(owner, self.sink, (self.ready.write,))

    def files(self, results: Iterable[RangeResult]) -> list[WrittenFile]:
        """Those that the tasks of these results wrote for it."""
        return kept_files(results, str(self.ready.write.location))


Prepare = Callable[[str, SinkSchema], SideTable]
"""A table of this name and these columns, created if it does not exist."""


@dataclass(frozen=True, slots=True)
class SideTables:
    """The tables beside a run's rows, by name; None: the run has none."""

    quarantine: str | None
    dead_letters: str | None

    @classmethod
    def of(cls, plan: ev.RunPlan, job: Job) -> SideTables:
        return cls(plan.quarantine or job.quarantine, plan.dead_letters or job.dead_letters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(table for table in (self.quarantine, self.dead_letters) if table is not None)

    def schema(self, table: str) -> SinkSchema:
        return quarantine_schema() if table == self.quarantine else sink_schema(DEAD_LETTERS)

    def beside(self, plan: ev.RunPlan, job: Job, ready: dict[str, SideTable], *, landed: bool) -> Beside:
        """What tasks do with what has no row. ready: the tables that have not landed yet.

        landed: a table of the run has. Its attempt had no more nulls than it might; the job file may say less by now,
        which is about later runs.
        """
        owner = FileOwner(plan.run_id, plan.app_version)
        quarantine = ready.get(self.quarantine or "")
        letters = ready.get(self.dead_letters or "")
        offsets = sum(planned.length for planned in plan.ranges)
        return Beside(
            Quarantine(quarantine.plan(owner)).opened if quarantine is not None else None,
            DeadLetterTable(letters.plan(owner), job.max_dead_letters(offsets)) if letters is not None else None,
            most_nulled(job, plan) if not landed else None,
        )


def check_dead_letters(job: Job, run_id: str, reading: ReadCounts) -> None:
    """Raises TooManyDeadLetters where a run has more of them than it may have."""
    most = job.max_dead_letters(reading.rows_in)
    if reading.dead > most:
        raise TooManyDeadLetters(reading.dead, most, reading.dead_examples, run_id)


def dead_letters_mismatch(reading: ReadCounts, files: Iterable[WrittenFile]) -> str | None:
    """Where the records that tasks set aside are not those in the files of the dead-letter table."""
    in_files = sum(file.rows for file in files)
    if in_files != reading.dead:
        return f"{reading.dead} records were set aside in decoding, and the files of dead letters have {in_files}"
    return None
