"""Maintenance of a job's tables and of its ledger: retention of dead letters, OPTIMIZE, VACUUM, retention of events.
No row of a target table changes.

    what        by                                                     beside running jobs
    ----------  -----------------------------------------------------  -----------------------------------------------
    letters     the same as optimize                                   leaves those that an unfinished redrive reads
    optimize    delta-rs where it may write to the table, else Spark   files that others replaced meanwhile are left
                Spark for Z-order
    vacuum      the same                                               leaves files that a run may still commit
    ledger      delta-rs                                               as at the end of every run

Only one maintenance of a job runs at a time (it has its own lease). If Spark writes to a store in which two drivers'
commits could overwrite each other (`sink.single_driver`), maintenance holds the table's lease, so that no run commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.config.times import format_duration
from kseg.etl.errors import ConfigurationError, Diagnostic, RetriableFailure
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.maintenance import KEEP, compact, count_files, retain, summarise
from kseg.etl.ledger.state import RunState
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.table_names import current_names
from kseg.etl.ledger.values import TableRecord, TableState
from kseg.etl.operations.expire_letters import ExpiredLetters, expire_letters
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.tables.errors import VacuumOfNested
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.protocol import Maintenance
from kseg.etl.tables.values import FileCount, KnownTable
from kseg.etl.telemetry.progress import Progress

CHAIN = "maintenance"
"""The chain whose lease excludes a second maintenance. No run has this id (`etl.ledger.run_ids`)."""

SAFE_RETENTION = timedelta(days=7)
"""Delta's default retention: readers of older versions and writers of other jobs have this much time."""

HOUR = timedelta(hours=1)

MARGIN = HOUR
"""How much older than the state that was read, and than an unfinished run's plan, a deleted file must be: clocks of
stores and hosts differ."""


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """The requested work. vacuum: the retention; None: no vacuum. keep: how long the ledger keeps events for queries.

    letters: dead letters older than the job file's retention are deleted.
    allow_short: the user accepts a retention below seven days, and below those that tables have of their own.
    """

    optimize: bool = True
    z_order: tuple[str, ...] = ()
    vacuum: timedelta | None = SAFE_RETENTION
    letters: bool = True
    ledger: bool = True
    keep: timedelta = KEEP
    dry_run: bool = False
    allow_short: bool = False


@dataclass(slots=True)
class TableMaintenance:
    """One table. by: `delta-rs` or `spark`. live: files of the newest version; stored: all files in its folder.

    optimized, vacuumed: number of files rewritten, and deleted; None where that was not requested, or cannot be known
    in advance. retention: the least age of a deleted file.
    """

    path: str
    by: str
    version_before: int
    version_after: int
    live_before: FileCount
    live_after: FileCount
    stored_before: FileCount | None
    stored_after: FileCount | None
    optimized: int | None = None
    vacuumed: FileCount | None = None
    retention: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerMaintenance:
    """summarised, retained, compacted: whether there was something to do. Files are those of the ledger's table."""

    path: str
    files_before: FileCount
    files_after: FileCount
    summarised: bool
    retained: bool
    compacted: bool


@dataclass(slots=True)
class MaintenanceReport:
    """The result of `kseg maintain`."""

    job: str
    dry_run: bool
    letters: list[ExpiredLetters] = field(default_factory=list)
    tables: list[TableMaintenance] = field(default_factory=list)
    ledger: LedgerMaintenance | None = None
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)


def maintain_job(
    job: Job,
    request: MaintenanceRequest,
    progress: Progress | None = None,
    *,
    take_over: bool = False,
    observe: Observer | None = None,
) -> MaintenanceReport:
    """Do the requested work, table by table, for all tables in the ledger.

    take_over: take the place of another maintenance whose lease is still live; it stops before its next table.

    Raises:
        ConfigurationError: a retention that could harm readers; columns to order by that a table does not have;
            at the end, after all other work, tables that Spark must not vacuum because other tables are inside them.
        AnotherRunActive: another maintenance is active, or a run holds the lease of a table with a single writer.
        LeaseLost: another maintenance has taken over.
        Refused: there is no ledger, or a table's state differs from the ledger's.
        RetriableFailure: the store is not available, or other writers caused a conflict on every try.
    """
    if request.vacuum is not None and request.vacuum < SAFE_RETENTION and not request.allow_short:
        raise ConfigurationError.of(
            "--vacuum",
            f"{format_duration(request.vacuum)} is shorter than seven days",
            "readers of older versions and other jobs that write to the table lose files then: "
            "--allow-short-retention if there are none",
        )
    with JobContext.open(job, progress, observe, ledger="required") as context, ExitStack() as held:
        lease = None if request.dry_run else held.enter_context(context.lease(CHAIN, take_over=take_over))
        state = context.clients.read_state()
        report = MaintenanceReport(job.name, request.dry_run)
        others = OtherJobs(context.clients.ledger, job.name)
        left: list[Diagnostic] = []
        if request.letters:
            context.progress.phase("maintain dead letters")
            report.letters = expire_letters(context, lease, job.dead_letter_retention)
            state = context.clients.read_state()
        for table in current_names(state.tables):
            context.progress.phase(f"maintain {table}")
            known = KnownTable(state.tables[table], state.table_records.get(table, TableRecord()))
            if context.targets.check(table, known) is None:
                continue  # nothing has landed in it, and it was deleted
            report.tables.append(_maintain_table(context, lease, table, request, others, report.notes, left))
        if request.ledger:
            context.progress.phase("maintain ledger")
            report.ledger = _maintain_ledger(context, request)
        report.seconds = context.stopwatch.seconds()
        if left:
            raise VacuumOfNested(left)
        return report


def _maintain_table(
    context: JobContext,
    lease: Lease | None,
    table: str,
    request: MaintenanceRequest,
    others: OtherJobs,
    notes: list[str],
    left: list[Diagnostic],
) -> TableMaintenance:
    """lease: the maintenance's; None for a dry run. left: reasons why the table is not vacuumed are appended to it."""
    maintenance = context.targets.maintenance(table, z_order=bool(request.z_order))
    if maintenance.because:
        notes.append(f"{table}: {maintenance.because}")
    if lease is None:
        return _maintain(context, maintenance, table, request, others, notes, left)
    lease.read()  # raises LeaseLost if another maintenance has taken over
    maintenance.check_store()
    with maintenance.exclusively(lease, wait=timedelta(0)):
        if maintenance.because and context.job.sink.single_driver:
            _refuse_unfinished(context, table, others)
        return _maintain(context, maintenance, table, request, others, notes, left)


def _refuse_unfinished(context: JobContext, table: str, others: OtherJobs) -> None:
    """Refuse a table with a lease while a run is unfinished: the run may have begun before the table had a lease.

    Raises:
        RetriableFailure: there is such a run.
    """
    state = context.clients.read_state()
    for run in (*state.unfinished_runs(), *others.planning(table, state.tables.get(table))):
        raise RetriableFailure(
            f"the run {run.run_id} may yet commit to the table, and Spark would overwrite its commit",
            remedy="let the run end (start it again if it has failed), then run the same command again",
            table=table,
        )


def _maintain(
    context: JobContext,
    maintenance: Maintenance,
    table: str,
    request: MaintenanceRequest,
    others: OtherJobs,
    notes: list[str],
    left: list[Diagnostic],
) -> TableMaintenance:
    before, live, stored = maintenance.version(), maintenance.live(), maintenance.stored()
    done = TableMaintenance(table, maintenance.by, before, before, live, live, stored, stored)
    details = {"job": context.job.name, "ledger": context.clients.ledger.id}
    if request.optimize:
        done.optimized = maintenance.optimize(request.z_order, dry_run=request.dry_run, details=details)
    if request.vacuum is not None:
        # After OPTIMIZE, whose removed files are too young, and read again: runs may have been planned meanwhile.
        read_at = datetime.now(UTC)
        state = context.clients.read_state()
        unfinished = [*state.unfinished_runs(), *others.planning(table, state.tables.get(table))]
        asked = _retention(maintenance, table, request.vacuum, notes, allow_short=request.allow_short)
        newest = cut_off(unfinished, asked, read_at)
        if others.names:
            newest = min(newest, others.read_at - MARGIN)
        retention = timedelta(hours=-(-(read_at - newest) // HOUR))
        if newest < read_at - asked:
            notes.append(f"{table}: files younger than {format_duration(retention)} stay: a run may commit them yet")
        try:
            done.vacuumed = maintenance.vacuum(asked, newest, dry_run=request.dry_run)
            done.retention = format_duration(retention)
        except VacuumOfNested as error:
            left.extend(error.faults)
    if not request.dry_run:
        done.version_after, done.live_after, done.stored_after = (
            maintenance.version(),
            maintenance.live(),
            maintenance.stored(),
        )
    return done


def _retention(
    maintenance: Maintenance, table: str, asked: timedelta, notes: list[str], *, allow_short: bool
) -> timedelta:
    """The retention of a table's VACUUM: the longer one of what was asked for and the table's own."""
    own = maintenance.retention()
    if own is None or own <= asked or allow_short:
        return asked
    notes.append(
        f"{table}: files of the last {format_duration(own)} stay, by the table's own retention; "
        "--allow-short-retention deletes them too"
    )
    return own


def cut_off(unfinished: Iterable[RunState], asked: timedelta, read_at: datetime) -> datetime:
    """VACUUM must not delete files written at or after this time: a run may still commit them.

    A run's tasks write files after it was planned, and no commit contains these until it lands; it may be continued at
    any later time. So VACUUM must keep what unfinished runs have written since their plans, and what a run writes that
    was planned after the state was read.

    unfinished: the runs that may land in the table. read_at: a time before these were read.
    """
    planned = [run.planned_at for run in unfinished]
    return min(read_at - asked, min([read_at, *planned]) - MARGIN)


@dataclass(slots=True)
class OtherJobs:
    """The other jobs in the ledger, whose unfinished runs may land in this job's tables.

    Their states are read once for all tables, because a ledger may have many jobs; and again if there is a new job.

    read_at: a time before they were read.
    """

    ledger: Ledger
    job: str
    names: tuple[str, ...] = ()
    read_at: datetime = datetime.min
    runs: tuple[RunState, ...] = ()

    def planning(self, table: str, known: TableState | None) -> Iterator[RunState]:
        """The unfinished runs that have planned this table, by any of its names. known: the table in the ledger."""
        self._read()
        place = _place(table)
        for run in self.runs:
            for name, planned in run.plan.tables.items():
                same = planned is not None and known is not None and planned.id == known.id
                if name == table or same or (place is not None and _place(name) == place):
                    yield run
                    break

    def _read(self) -> None:
        began = datetime.now(UTC)
        names = tuple(name for name in self.ledger.jobs() if name != self.job)
        if names != self.names:
            states = [self.ledger.read(name) for name in names]
            self.names, self.read_at = names, began
            self.runs = tuple(run for state in states for run in state.unfinished_runs())


def _maintain_ledger(context: JobContext, request: MaintenanceRequest) -> LedgerMaintenance:
    ledger, job = context.clients.ledger, context.job.name
    before = _ledger_files(context)
    if request.dry_run:
        return LedgerMaintenance(ledger.path, before, before, False, False, False)
    summarised = summarise(ledger, job, after=0)
    retained = retain(ledger, job, keep=request.keep)
    compacted = compact(ledger, job, small_files=1)
    return LedgerMaintenance(ledger.path, before, _ledger_files(context), summarised, retained, compacted)


def _ledger_files(context: JobContext) -> FileCount:
    return FileCount(*count_files(context.clients.ledger))


def _place(table: str) -> str | None:
    """One spelling for each location; None if only a Spark session knows it."""
    location = TableLocation.of_table(table)
    return None if location is None else location.place
