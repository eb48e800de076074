"""Abandon a run: its rows are removed from all tables, and no attempt of it can land them afterwards."""

from __future__ import annotations

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import RunState
from kseg.etl.run.context import JobContext
from kseg.etl.run.report import RunReport, TableReport
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.tables.protocol import TableAccess
from kseg.etl.tables.values import RunCommit


def abandon_run(context: JobContext, lease: Lease, run: RunState, reason: str) -> RunReport:
    """Remove the run's rows, each table in one commit with the run's own app transaction.

    That commit is written for tables without rows of it as well: a suspended attempt that wakes up afterwards finds
    its app transaction taken, and cannot land.
    """
    if not run.abandoning:
        lease.transition(lambda _: [ev.Abandoning(run_id=run.run_id, reason=reason)])
    seen = context.clients.read_state().tables
    tables: dict[str, ev.TableState] = {}
    landed_in: list[str] = []
    removed: list[TableReport] = []
    for table in {**run.plan.tables, **run.landed}:
        lease.check()
        access = context.targets.access(table)
        planned = run.plan.tables.get(table)
        if access is None or access.state() is None:
            continue  # never created, or dropped; an attempt that creates it must renew its lease, and has lost it
        target = context.targets.target_without(table, run.run_id)
        after = target.remove_run(RunCommit(run.run_id, run.plan.app_id, run.plan.app_version))
        if table not in seen or not access.incidents_since(seen[table], after.after):
            tables[table] = after.after  # else the removal's commit, newer than the incident, would hide it
        removed.append(TableReport(table, after.version, after.removed))
        access.clean_up(run.run_id)
        if table in run.landed or _had_landed(access, run.plan, planned):
            landed_in.append(table)
    ended = ev.Abandoned(run_id=run.run_id, tables=tables, landed_in=tuple(landed_in), reason=reason)
    lease.transition(lambda _: [ended])
    report = report_of(context.job.name, run, status="abandoned")
    report.tables = removed
    report.notes.append(f"run {run.run_id} was abandoned, and its rows were removed: {reason}")
    return report


def _had_landed(access: TableAccess, plan: ev.RunPlan, planned: ev.TableState | None) -> bool:
    """Whether the table's history has a commit of the run's rows. Asked after its app transaction is taken: none can
    follow, and an abandonment that is continued finds the same."""
    return any(
        commit.transactions.get(plan.app_id) == plan.app_version and commit.details.get("mode") == plan.mode
        for commit in access.history(after=planned)
    )
