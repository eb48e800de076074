"""A run's side tables, which it commits before its rows (`etl.tables.side_kinds` has what may be in them)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.run.nulled import most_nulled
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.quarantine import Quarantine
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.side_table import DeadLetterTable, kept_files
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.parquet.writer import LandingPlan
from kseg.etl.tables.protocol import FileTarget
from kseg.etl.tables.side_kinds import LETTERS, QUARANTINE, SIDE_KINDS, SideKind
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
    """The tables beside a run's rows. kinds: what is set aside in them, by name."""

    kinds: Mapping[str, SideKind]

    @classmethod
    def of(cls, plan: ev.RunPlan, job: Job) -> SideTables:
        return cls({table: kind for kind in SIDE_KINDS if (table := kind.of_run(plan, job)) is not None})

    def table(self, kind: SideKind) -> str | None:
        """The table of what is of a kind; None: the run has none."""
        return next((table for table, of_table in self.kinds.items() if of_table is kind), None)

    def beside(self, plan: ev.RunPlan, job: Job, ready: dict[str, SideTable], *, landed: bool) -> Beside:
        """What tasks do with what has no row. ready: the tables that have not landed yet.

        landed: a table of the run has. Its attempt had no more nulls than it might; the job file may say less by now,
        which is about later runs.
        """
        owner = FileOwner(plan.run_id, plan.app_version)
        quarantine = ready.get(self.table(QUARANTINE) or "")
        letters = ready.get(self.table(LETTERS) or "")
        offsets = sum(planned.length for planned in plan.ranges)
        return Beside(
            Quarantine(quarantine.plan(owner)).opened if quarantine is not None else None,
            DeadLetterTable(letters.plan(owner), job.max_dead_letters(offsets)) if letters is not None else None,
            most_nulled(job, plan) if not landed else None,
        )
