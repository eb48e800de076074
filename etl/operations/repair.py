"""Repair an unfinished run: finish it as it was planned, or abandon it and remove its rows.

Both take the run's own lease, so that a run that is still active is not repaired.
"""

from __future__ import annotations

from collections.abc import Callable

from kseg.etl.config.job import Job
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import RunState
from kseg.etl.operations.as_planned import as_planned
from kseg.etl.operations.find_run import find_run
from kseg.etl.operations.rows_at_stake import RowsAtStake, refuse_loss, rows_at_stake
from kseg.etl.planning.preflight import check_again, examine_tables
from kseg.etl.run.abandon import abandon_run, fence_tables
from kseg.etl.run.account import failed
from kseg.etl.run.context import JobContext
from kseg.etl.run.pipeline import execute
from kseg.etl.run.report import RunReport
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.tables.errors import landed_by
from kseg.etl.telemetry.progress import Progress


def finish(
    job: Job, run_id: str, *, dry_run: bool = False, take_over: bool = False, progress: Progress | None = None
) -> RunReport:
    """Finish an unfinished run with the configuration of its plan, even if the job file has changed since.

    Source, decoding, transform, sink and group are the plan's; connections, ledger, limits and consents the job file's
    (`as_planned`). A backfill from files reads the files that it was planned from.

    run_id: may be a unique prefix (`find_run`).

    Raises:
        Refused: there is no such run, or more than one, or it has ended; or a table is not what the ledger left.
    """
    with JobContext.open(job, progress, ledger="required") as outer:
        planned = _unfinished(outer, run_id)
        pinned = as_planned(job, planned)
        of_files = pinned.source.segments is not None and planned.mode != ev.INCREMENTAL
    with JobContext.open(pinned, progress, ledger="required", copy=of_files) as context:
        if dry_run:
            _refuse_finish(context, planned)
            return report_of(job.name, planned, status="dry-run")
        with context.run_lease(planned.chain, take_over=take_over, repair=True) as lease:
            run = _unfinished(context, planned.run_id)
            _refuse_finish(context, run)  # before anything is recorded: what is refused leaves the run as it is
            if run.account_failed is not None:
                lease.transition(lambda _: [ev.AccountCleared(run_id=run.run_id, reason="kseg repair --finish")])
            state = context.clients.read_state()
            return execute(context, lease, state, state.runs[run.run_id])


def _refuse_finish(context: JobContext, run: RunState) -> None:
    """Refuse what can only be abandoned, or is not as it was planned: with or without `--dry-run`.

    context: of the job as the run was planned.

    Raises:
        Refused: as `finish`.
    """
    if run.abandoning:
        raise Refused.of("run-abandoning", run=run.run_id)
    if run.account_failed is not None and run.account_failed.final:
        raise failed(run.plan, run.account_failed)
    if run.accounted is None:
        state = context.clients.read_state()
        check_again(context.inputs, state)
        examine_tables(context.inputs, state, run.chain, run.plan.tables)


def abandon(
    job: Job,
    run_id: str,
    *,
    dry_run: bool = False,
    take_over: bool = False,
    lose_rows: bool = False,
    ask: Callable[[RowsAtStake], bool] | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Remove an unfinished run's rows from all of its tables; its offsets are open again.

    Rows whose records the run's source has no more cannot be landed again: somebody has to agree to lose them. An
    abandonment that was interrupted goes on without that.

    run_id: may be a unique prefix (`find_run`). lose_rows: such rows may be lost. ask: asks a person whether they may.

    Raises:
        Refused: there is no such run, or more than one, or it has ended, or the group's offsets were committed over it;
            or rows would be lost (`rows-would-be-lost`), and nobody has agreed.
    """
    with JobContext.open(job, progress, ledger="required") as context:
        run = _unfinished(context, run_id)
        if run.offsets_committed is not None:
            raise Refused.of("offsets-committed", run=run.run_id)
        if dry_run:
            return _with_stake(report_of(job.name, run, status="dry-run"), _stake(job, context, run), "would be")
        with context.run_lease(run.chain, take_over=take_over, repair=True) as lease, landed_by(run.run_id):
            run = _unfinished(context, run.run_id)
            fence_tables(context, lease, run)  # what is counted, and asked about, is all that will be removed
            stake = _stake(job, context, run)
            if stake and not lose_rows and not (ask is not None and ask(stake)):
                raise refuse_loss(run, stake)
            report = abandon_run(context, lease, _unfinished(context, run.run_id), "kseg repair --abandon")
            return _with_stake(report, stake, "were")


def _stake(job: Job, context: JobContext, run: RunState) -> RowsAtStake:
    """The rows at stake; none of a run whose abandonment has begun: it has removed rows, and has to be completed."""
    return RowsAtStake() if run.abandoning else rows_at_stake(job, context, run)


def _with_stake(report: RunReport, stake: RowsAtStake, verb: str) -> RunReport:
    report.lost_rows = stake.to_json()
    if stake:
        report.notes.append(f"rows that {verb} lost, because their records cannot be read again: {stake}")
    return report


def _unfinished(context: JobContext, run_id: str) -> RunState:
    run = find_run(context.clients.ledger.read(context.job.name), run_id)
    if run.ended:
        raise Refused.of("run-ended", {"phase": run.phase}, run=run.run_id)
    return run
