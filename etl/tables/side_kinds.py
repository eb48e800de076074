"""What tasks set aside, in tables beside those of the rows. One object for each kind, `SIDE_KINDS` has all of them.

    quarantine      bytes that are no records      `source.on_corruption: quarantine`      etl.tables.parquet.quarantine
    dead letters    records that have no row       `decode.on_error: dead_letter`          etl.decoding.bad_records

Each step of a run asks the same of every kind:

    step                      question
    ------------------------  --------------------------------------------------------------------------------------
    plan, status, rebuilding  which table has the job (`of_job`), and the run (`of_run`)? under which key (`setting`)?
    before reading            which columns has it (`schema`)?
    before the first commit   may the run have so much of it, and is it in the files (`check`)?
    second equation           how many rows has its commit (`rows_due`)?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.ledger.values import RangeCounts, RunPlan
    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.parquet.task_output import WrittenFile


class Read(Protocol):
    """What a run has read: records, and dead letters with their first messages."""

    @property
    def rows_in(self) -> int: ...

    @property
    def dead(self) -> int: ...

    @property
    def dead_examples(self) -> tuple[str, ...]: ...


class SideKind(ABC):
    """One kind of what tasks set aside. setting: the section of its table in the job file."""

    setting: ClassVar[str]

    @abstractmethod
    def of_job(self, job: Job) -> str | None:
        """The job's table; None if it has none."""

    @abstractmethod
    def of_plan(self, plan: RunPlan) -> str | None:
        """The table in a run's plan; None if it has none."""

    def of_run(self, plan: RunPlan, job: Job) -> str | None:
        """A run that was planned without such a table uses the job's, if the user has added it since."""
        return self.of_plan(plan) or self.of_job(job)

    @abstractmethod
    def schema(self) -> SinkSchema:
        """The columns of the table."""

    def check(self, job: Job, run_id: str, read: Read, files: Iterable[WrittenFile]) -> str | None:
        """Compare what was read with the tasks' files of this kind; returns the difference, None if they agree.

        Raises:
            TooManyDeadLetters: the run has more of it than it may have.
        """
        return None

    def rows_due(self, counts: RangeCounts) -> int | None:
        """The rows of a commit, by the counts of all of the run's ranges; None if the counts do not say it."""
        return None


class _Quarantine(SideKind):
    """Damaged bytes. A row is a piece of them, of which nothing is counted but its offsets."""

    setting: ClassVar[str] = "sink.quarantine"

    def of_job(self, job: Job) -> str | None:
        return job.quarantine

    def of_plan(self, plan: RunPlan) -> str | None:
        return plan.quarantine

    def schema(self) -> SinkSchema:
        from kseg.etl.tables.parquet.quarantine import quarantine_schema

        return quarantine_schema()


class _DeadLetters(SideKind):
    """Records that cannot be decoded, one row each."""

    setting: ClassVar[str] = "sink.dead_letters"

    def of_job(self, job: Job) -> str | None:
        return job.dead_letters

    def of_plan(self, plan: RunPlan) -> str | None:
        return plan.dead_letters

    def schema(self) -> SinkSchema:
        from kseg.etl.decoding.bad_records import DEAD_LETTERS
        from kseg.etl.tables.parquet.schema import sink_schema

        return sink_schema(DEAD_LETTERS)

    def check(self, job: Job, run_id: str, read: Read, files: Iterable[WrittenFile]) -> str | None:
        from kseg.etl.decoding.errors import TooManyDeadLetters

        most = job.max_dead_letters(read.rows_in)
        if read.dead > most:
            raise TooManyDeadLetters(read.dead, most, read.dead_examples, run_id)
        in_files = sum(file.rows for file in files)
        if in_files != read.dead:
            return f"{read.dead} records were set aside in decoding, and the files of dead letters have {in_files}"
        return None

    def rows_due(self, counts: RangeCounts) -> int | None:
        return counts.decoding.dead if counts.decoding is not None else 0


QUARANTINE: Final[SideKind] = _Quarantine()
LETTERS: Final[SideKind] = _DeadLetters()

SIDE_KINDS: Final[tuple[SideKind, ...]] = (QUARANTINE, LETTERS)


def side_tables_of(job: Job) -> Iterator[tuple[SideKind, str]]:
    """The kinds that a job sets aside, with their tables."""
    for kind in SIDE_KINDS:
        if (table := kind.of_job(job)) is not None:
            yield kind, table
