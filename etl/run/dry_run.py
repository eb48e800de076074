"""What a run would read: looked up and planned, with nothing written. Imports nothing that reads records."""

from __future__ import annotations

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.plan import Draft, plan_incremental
from kseg.etl.planning.preflight import preflight, read_without_lease
from kseg.etl.run.context import JobContext
from kseg.etl.run.open_transaction_lag import open_transaction_lags
from kseg.etl.run.report import RunReport
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.telemetry.progress import Progress


def plan_only(job: Job, *, accept_group_offsets: bool = False, progress: Progress | None = None) -> RunReport:
    """What `run_ingest` would read now; nothing is written anywhere, and a lease that others hold does not matter."""
    with JobContext.open(job, progress, ledger="optional") as context:
        return read_without_lease(
            context.clients.read_state, lambda state: _planned(context, state, accept_group_offsets)
        )


def _planned(context: JobContext, state: JobState, accept_group_offsets: bool) -> RunReport:
    unfinished = state.unfinished()
    if unfinished is not None:
        report = report_of(context.job.name, unfinished, status="dry-run")
        report.notes.append(f"run {unfinished.run_id} is unfinished ({unfinished.phase}) and would be taken up")
        return report
    seen = preflight(context.inputs, state, ev.INCREMENTAL, accept_group_offsets=accept_group_offsets)
    draft = Draft.unwritten(seen, state)
    plan = plan_incremental(draft, "dry-run")
    if plan is None:
        return RunReport(context.job.name, None, "incremental", "nothing-to-do", seconds=context.stopwatch.seconds())
    report = report_of(context.job.name, draft.state.runs[plan.run_id], status="dry-run")
    report.run_id = None
    report.held_back = open_transaction_lags(context.clients.logs, plan.held_back)
    report.seconds = context.stopwatch.seconds()
    return report
