"""The plan of an ingest, a backfill or an interval run, made without writing anything.

Starts no Spark, unless a target is a table in a catalog, which only Spark can read.
"""

from __future__ import annotations

from collections.abc import Iterator

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.modes import BACKFILLS
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill import BackfillPlanner, all_in_files, job_for, run_id_of, unfinished_from_files
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.cap import runs_for
from kseg.etl.planning.losses import planned_losses
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.preflight import preflight, read_without_lease
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.check_decode import refuse_odd_numbers
from kseg.etl.run.check_job import check_steps, not_checked, refuse_unreadable
from kseg.etl.run.context import JobContext
from kseg.etl.run.engine_choice import foreseen_engine
from kseg.etl.run.live_view import LiveView
from kseg.etl.run.next_step import Foreseen, Planner, foresee
from kseg.etl.run.open_transaction_lag import open_transaction_lags
from kseg.etl.run.report import EngineReport, RunReport, Status
from kseg.etl.run.report_from_ledger import report_of
from kseg.etl.run.schemas import transform_of_run
from kseg.etl.run.sink_rows import batch_schemas, planned_sinks, topics_of
from kseg.etl.tables.targets import Targets
from kseg.etl.telemetry.progress import Progress
from kseg.etl.transform.plan_warnings import sql_warnings
from kseg.etl.transform.transform import transform_of


def plan_only(
    job: Job,
    request: BackfillRequest | None = None,
    *,
    accept_group_offsets: bool = False,
    with_spark: bool = False,
    drain: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """What `run_ingest` would read now, or with a request `run_backfill`. Takes no lease and waits for none.

    drain: note how many runs `run_drain` would make, of which this is the first.
    with_spark: Spark is started to analyse steps on the DataFrame. The report's notes say what was not checked.

    Raises:
        ConfigurationError, IntervalOpen, Refused, KafkaError: as the run would.
    """
    job, copy = (job_for(job, request), bool(request.segments)) if request is not None else (job, False)
    with JobContext.open(job, progress, ledger="optional", copy=copy) as context:
        warnings = () if _checked_at_plan(job) else check_steps(job, with_spark=with_spark)
        context.check_group(commits=request is None or request.commit_offsets)
        dry_run = _DryRun(context, accept_group_offsets, drain)
        report = read_without_lease(
            context.clients.read_state,
            dry_run.ingest if request is None else lambda state: dry_run.backfill(request, state),
        )
        if context.clients.cluster_or_none is not None:
            refuse_unreadable(context.clients.cluster, sorted({one.topic for one in report.ranges}))
        if context.spark.reads_catalog:
            report.notes.append("Spark was started: only Spark knows the state of tables with names in a catalog")
        report.notes += [*warnings, *not_checked(job, with_spark=with_spark, connected=True)]
        return report


class _DryRun:
    def __init__(self, context: JobContext, accept_group_offsets: bool, drain: bool) -> None:
        self._context = context
        self._inputs, self._targets, self._stopwatch = context.inputs, context.targets, context.stopwatch
        self._accept, self._drain = accept_group_offsets, drain
        self._job = context.job.name

    def ingest(self, state: JobState) -> RunReport:
        foreseen = self._foresee(state, ev.INCREMENTAL, plan_incremental)
        report = self._report(foreseen, "incremental")
        if self._drain and foreseen.step.draft is not None:
            report.notes.append(self._drained_in(foreseen.step.draft, report))
        return report

    def _foresee(self, state: JobState, chain: str, planner: Planner) -> Foreseen:
        def read(state: JobState) -> PlanInputs:
            return preflight(self._inputs, state, chain, accept_group_offsets=self._accept)

        return foresee(LiveView(self._context, read), state, chain, planner)

    def _drained_in(self, draft: Draft, first: RunReport) -> str:
        cap = self._inputs.job.run
        later = runs_for((draft.unread or {}).items(), cap, draft.inputs.sizes)
        offsets = sum(r.end - r.start for r in first.ranges) + (first.unread or 0)
        runs, about = later + bool(first.ranges), "about " if cap.max_bytes is not None else ""
        return f"--drain would read {offsets} offsets, up to the ends of now, in {about}{runs} run(s)"

    def backfill(self, request: BackfillRequest, state: JobState) -> RunReport:
        bounded: BackfillRequest | None = request
        if request.unbounded:
            bounded = unfinished_from_files(state, request.segments)
            bounded = bounded or all_in_files(self._inputs, request, state)
        if bounded is None:
            return RunReport(
                self._job, None, BACKFILLS[request.mode].name, "nothing-to-do", seconds=self._stopwatch.seconds()
            )
        planner = BackfillPlanner(self._inputs.job, self._inputs.logs, bounded, run_id_of(bounded, state))
        return self._report(self._foresee(state, planner.run_id, planner.decide), planner.mode)

    def _report(self, foreseen: Foreseen, mode: ev.Mode) -> RunReport:
        step, first = foreseen.step, foreseen.abandoned
        if step.draft is not None:
            report = self._planned(step.draft, mode)
        else:
            assert step.run is not None
            status: Status = "dry-run" if step.kind == "continue" else "nothing-to-do"
            report = report_of(self._job, step.run, status=status)
            if step.kind == "continue" and not step.run.accounted:
                report.engine = self._engine(step.run.plan)
            report.notes.append(
                f"run {step.run.run_id} is unfinished ({step.run.phase}) and would continue"
                if step.kind == "continue"
                else f"run {step.run.run_id} was finished before, at {step.run.ended_at}"
            )
        if first is not None and first.run is not None:
            report.notes.insert(0, f"run {first.run.run_id} would be abandoned: {first.why}")
        return report

    def _planned(self, draft: Draft, mode: ev.Mode) -> RunReport:
        planned = [event.plan for event in draft.events if isinstance(event, ev.Planned)]
        if not planned:
            return RunReport(self._job, None, mode, "nothing-to-do", seconds=self._stopwatch.seconds())
        (plan,) = planned
        refuse_odd_numbers(self._inputs.job, plan, draft.state)
        unchecked = [*_check_planned_rows(self._inputs.job, self._targets, plan, draft.state)]
        report = report_of(self._job, draft.state.runs[plan.run_id], status="dry-run")
        report.run_id = None
        report.unread = draft.left_to_later_runs
        report.notes += [
            *planned_losses(draft.events),
            *draft.notes,
            *sql_warnings(transform_of(self._inputs.job)),
            *unchecked,
        ]
        report.engine = self._engine(plan)
        report.held_back = open_transaction_lags(self._inputs.logs, plan.held_back)
        report.seconds = self._stopwatch.seconds()
        return report

    def _engine(self, plan: ev.RunPlan) -> EngineReport:
        choice = foreseen_engine(self._context, plan)
        return EngineReport(choice.executor, choice.why)


def _checked_at_plan(job: Job) -> bool:
    """Whether the job's columns are known at a plan and not before: steps on the DataFrame are left out."""
    return any(lineages_of(job)) and not transform_of(job).on_frame


def _check_planned_rows(job: Job, targets: Targets, plan: ev.RunPlan, state: JobState) -> Iterator[str]:
    """Check the rows of a plan as its run does before it reads: their columns, and whether they fit the tables.

    Nothing is read; Spark is not started. state: with the plan's own schemas.

    Yields what was not checked.

    Raises:
        ConfigurationError: a step does not work, or its rows cannot be landed in their tables.
    """
    if not plan.ranges:
        return
    if transform_of(job).on_frame or (any(lineages_of(job)) and not plan.schemas):
        yield "not checked: whether the rows fit the tables"
        return
    steps = transform_of_run(job, plan, state).on_batches
    tables = job.sink.tables_of(()) if plan.routed else {*topics_of(plan).values()}
    unknown = [
        table
        for table, sink in planned_sinks(job, plan, steps, batch_schemas(job, plan, steps, tables)).items()
        if not targets.check_fit(table, sink, plan.run_id)
    ]
    if unknown:
        yield f"not checked: whether the rows fit {', '.join(unknown)}, which Spark writes"
