"""A run that has ended, from its ledger: for a page that is written later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kseg.etl.errors import Refused
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.find_run import find_run
from kseg.etl.run.report_from_ledger import ended, report_of
from kseg.etl.telemetry.events import AccountFailed, TableCommitted
from kseg.etl.telemetry.recorder import Telemetry
from kseg.jobs.report.outcome import CommandOutcome

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.ledger.state import JobState, RunState


def outcome_of(job: Job, run_id: str | None) -> CommandOutcome:
    """The run, by its id or a unique part of it; without one the last run.

    Raises:
        Refused: there is no ledger, no such run, or more than one.
    """
    ledger = Ledger.open(job.ledger, create=False)
    state = ledger.read(job.name)
    run = _run(state, run_id)
    telemetry = Telemetry(began=run.planned_at.timestamp(), job=job, ledger_id=ledger.id, plan=run.plan)
    telemetry.ended = (run.ended_at or datetime.now(UTC)).timestamp()
    for table, commit in run.landed.items() if not run.abandoned else ():
        telemetry.commits[table] = TableCommitted(
            table, commit, quarantine=table == run.quarantine, dead_letters=table == run.plan.dead_letters
        )
    if run.account_failed is not None:
        telemetry.account_failed = AccountFailed(run.account_failed.equation, run.account_failed.reason)
    document = (
        ended(job.name, run, state) if run.ended else report_of(job.name, run, status="done", state=state)
    ).to_json()
    if not run.ended:
        document["status"] = run.phase
        document["notes"].append(f"the run is {run.phase}, as of this page's writing")
    if run.refused is not None and not run.ended:
        document["notes"].append(f"it was rejected: {run.refused.message}")
    return CommandOutcome("report", telemetry, document, 0, from_ledger=True)


def _run(state: JobState, run_id: str | None) -> RunState:
    if run_id is not None:
        return find_run(state, run_id)
    if not state.runs:
        raise Refused.of("no-such-run", case="no runs")
    return list(state.runs.values())[-1]
