"""Abandon a run: its rows are removed from all tables, and no attempt of it can land them afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.state import RunState
from kseg.etl.run.context import JobContext
from kseg.etl.run.report import RunReport, TableReport
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.tables.values import CommitRecord, RunCommit


def abandon_run(context: JobContext, lease: Lease, run: RunState, reason: str) -> RunReport:
    """Remove the run's rows, each table in one commit with the run's own app transaction.

    That commit is written for tables without rows of it as well: a suspended attempt that wakes up afterwards finds
    its app transaction taken, and cannot land. Which tables have rows is noted before: the app transaction is in their
    snapshots then, however much of their history has been cleaned up, and afterwards it is in all of them.
    """
    if not run.abandoning:
        landed = tuple(_landed_tables(context, run))
        found = {table: _kept(context, run, table) for table in landed if table not in run.landed}
        kept = {table: digest for table, digest in found.items() if digest is not None}
        note = ev.Abandoning(run_id=run.run_id, reason=reason, landed_in=landed, kept=kept)
        state = lease.transition(lambda _: [note])
        run = state.runs[run.run_id]
    seen = context.clients.read_state().tables
    tables: dict[str, ev.TableState] = {}
    landed_in: list[str] = []
    kept_late: dict[str, str] = {}
    removed: list[TableReport] = []
    for table in _tables_of(context, run):
        lease.check()
        access = context.targets.access(table)
        before = access.state() if access is not None else None
        if access is None or before is None:
            continue  # never created, or dropped; an attempt that creates it must renew its lease, and has lost it
        after = _remove(context, lease, run, table, access)
        # The removal's own rows are no incident, and its commit, newer than one, must not hide it.
        known = (seen.get(table), before), (before, after.after)
        if not any(access.incidents_since(old, new) for old, new in known if old is not None):
            tables[table] = after.after
        removed.append(TableReport(table, after.version, after.removed))
        access.clean_up(run.run_id, after=run.plan.tables.get(table))
        # A suspended attempt may have landed between the note and the removal: by its commit, or by its rows where the
        # commit's entry has been cleaned up since.
        landing = _landing(access, run.plan, table)
        late = (_has_mark(run) and after.removed > 0) or landing is not None
        if table in (run.landed_in or run.landed) or late:
            landed_in.append(table)
        if landing is not None and "kept" in landing.details:
            kept_late[table] = landing.details["kept"]
    ended = ev.Abandoned(run_id=run.run_id, tables=tables, landed_in=tuple(landed_in), reason=reason, kept=kept_late)
    lease.transition(lambda _: [ended])
    report = report_of(context.job.name, run, status="abandoned")
    report.tables = removed
    report.notes.append(f"run {run.run_id} was abandoned, and its rows were removed: {reason}")
    return report


def _tables_of(context: JobContext, run: RunState) -> list[str]:
    """Where rows of the run may be. One that was planned without tables beside them uses the job's."""
    job, plan = context.job, run.plan
    beside = run.quarantine or job.quarantine, plan.dead_letters or job.dead_letters
    return list(dict.fromkeys([*plan.tables, *run.landed, *(table for table in beside if table is not None)]))


def _landed_tables(context: JobContext, run: RunState) -> Iterator[str]:
    """The tables that the run has landed in, whether or not its attempt has recorded that."""
    app_id, version = run.plan.app_id, run.plan.app_version
    for table in _tables_of(context, run):
        if table in run.landed or context.targets.transaction_version(table, app_id) >= version:
            yield table


def _remove(context: JobContext, lease: Lease, run: RunState, table: str, access: TableAccess) -> ev.TableCommit:
    plan = run.plan
    if not _has_mark(run) and run.landed_in is not None and table not in run.landed_in:
        taken = (access.transaction_version(plan.app_id) or 0) >= plan.app_version
        if taken and _landing(access, plan, table) is None:
            # By an abandonment that was interrupted. Rows with this run's id, of releases up to 0.1, are another
            # ledger's: the run has none here.
            now = access.state()
            assert now is not None
            return ev.TableCommit(now.version, rows=0, after=now, found=True)
    target = context.targets.target_without(table, run.run_id)
    with target.exclusively(lease, wait=context.job.run.deadline):
        return target.remove_run(RunCommit(run.run_id, plan.app_id, plan.app_version))


def _has_mark(run: RunState) -> bool:
    """Whether rows with the run's id are this run's in any case."""
    return parse_run_id(run.run_id) is not None


def _landing(access: TableAccess, plan: ev.RunPlan, table: str) -> CommitRecord | None:
    """The commit of the run's rows in the table's history; None where there is none, or not any more."""
    for commit in access.history(after=plan.tables.get(table)):
        if commit.transactions.get(plan.app_id) == plan.app_version and commit.details.get("mode") == plan.mode:
            return commit
    return None


def _kept(context: JobContext, run: RunState, table: str) -> str | None:
    """What a landing that was not recorded has kept, by its digest (`TableCommit.kept`)."""
    access = context.targets.access(table) if run.mode == "backfill-replace" else None
    landing = None if access is None else _landing(access, run.plan, table)
    return None if landing is None else landing.details.get("kept")
