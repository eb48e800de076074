"""Abandon a run: its rows are removed from all tables, and no attempt of it can land them afterwards.

    fence each table ──► which rows has the run landed? ──► `abandoning` ──► remove them, table by table ──► `abandoned`

An attempt that was suspended can land until it is stopped. So what depends on the rows that the run has landed (whether
it is abandoned, whether rows are lost for good) is decided behind the fence.
"""

from __future__ import annotations

from collections.abc import Iterator

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.state import RunState
from kseg.etl.run.context import JobContext
from kseg.etl.run.leftovers import delete_leftovers
from kseg.etl.run.report import RunReport, TableReport
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.tables.values import CommitRecord, RunCommit


def fence_tables(context: JobContext, lease: Lease, run: RunState) -> None:
    """End what earlier attempts can land: after this, the tables keep what they have of the run.

    An attempt's commit succeeds on the newest version of its table only, and if there is a fence since its plan, it
    reads its lease in the ledger first. That lease is this process's. A fence is no use of the run's app transaction:
    if the run turns out to have landed in one of its tables, it can still be completed in the others.

    Tables that the run has landed in need no fence, and a run whose abandonment has begun neither. A table that does
    not exist yet cannot get rows: whoever creates it renews its lease before it lands there.

    Raises:
        LeaseLost, AnotherRunActive: another process has the run, or a table.
        what `Target.fence` raises.
    """
    if run.abandoning:
        return
    landed = set(landed_tables(context, run))
    for table in _tables_of(context, run):
        lease.check()
        access = context.targets.access(table)
        if table in landed or access is None or access.state() is None:
            continue
        target = context.targets.target(table)
        with target.exclusively(lease, wait=context.deadline.left()):
            target.fence(run.run_id)


def abandon_run(context: JobContext, lease: Lease, run: RunState, reason: str) -> RunReport:
    """Remove the run's rows, each table in one commit with the run's own app transaction.

    Tables without rows of the run get this commit too: a suspended attempt that resumes later finds the app transaction
    used, and cannot land. The ledger records before which tables have rows: until then only those have the app
    transaction in their snapshots (also where their history was cleaned up), afterwards all of them do.
    """
    if not run.abandoning:
        landed = tuple(landed_tables(context, run))
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
        # Incidents before the removal and during it: its own commit is none, and must not hide an older one.
        known = (seen.get(table), before), (before, after.after)
        if not any(access.incidents_since(old, new) for old, new in known if old is not None):
            tables[table] = after.after
        removed.append(TableReport(table, after.version, after.removed))
        delete_leftovers(lease, access, run.plan, table)
        # A suspended attempt may have landed between the event and the removal. Its commit shows that, or its rows
        # where the commit's entry has been cleaned up since.
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
    """The tables that may have rows of the run. A run that was planned without side tables uses the job's."""
    job, plan = context.job, run.plan
    beside = run.quarantine or job.quarantine, plan.dead_letters or job.dead_letters
    return list(dict.fromkeys([*plan.tables, *run.landed, *(table for table in beside if table is not None)]))


def landed_tables(context: JobContext, run: RunState) -> Iterator[str]:
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
            # An interrupted abandonment has removed the rows. Rows with this run's id, written by releases up to 0.1,
            # belong to another ledger.
            now = access.state()
            assert now is not None
            return ev.TableCommit(now.version, rows=0, after=now, found=True)
    target = context.targets.target_without(table, run.run_id)
    with target.exclusively(lease, wait=context.deadline.left()):
        try:
            return target.remove_run(RunCommit(run.run_id, plan.app_id, plan.app_version))
        except Refused:
            lease.read()  # raises LeaseLost: what another process has landed since may be what was refused
            raise


def _has_mark(run: RunState) -> bool:
    """Whether the run's id is unique across ledgers, so that all rows with it are this run's."""
    return parse_run_id(run.run_id) is not None


def _landing(access: TableAccess, plan: ev.RunPlan, table: str) -> CommitRecord | None:
    """The commit of the run's rows in the table's history; None where there is none, or its entry was cleaned up."""
    for commit in access.history(after=plan.tables.get(table)):
        if commit.transactions.get(plan.app_id) == plan.app_version and commit.details.get("mode") == plan.mode:
            return commit
    return None


def _kept(context: JobContext, run: RunState, table: str) -> str | None:
    """The digest of the offsets whose rows an unrecorded landing has kept (`TableCommit.kept`)."""
    access = context.targets.access(table) if run.plan.replaces else None
    landing = None if access is None else _landing(access, run.plan, table)
    return None if landing is None else landing.details.get("kept")
