"""One run of a job, step by step: lease, plan, land, account, commit, finish.

Why each step is safe: docs/explanation/exactly-once.md.

Every step reads what it needs from the ledger, so a run that died at any point is continued by the same steps: those
that the ledger has already are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from kseg.client.errors import KafkaError
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.decoding.errors import UnknownSchemas
from kseg.etl.errors import AnotherRunActive, KsegError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.maintenance import maintain
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.epoch_ends import EpochEnds, ends_of
from kseg.etl.planning.freshness import group_as_of, inputs_as_of
from kseg.etl.planning.group_reconciliation import GroupView, committed_epochs, reconcile
from kseg.etl.planning.losses import planned_losses
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.preflight import check_again, preflight
from kseg.etl.run.abandon import abandon_run, fence_tables
from kseg.etl.run.changed_plan import literal_notes
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.data_freshness import observed_freshness
from kseg.etl.run.failures import record_failure
from kseg.etl.run.group_commit import as_events, commit_frontier
from kseg.etl.run.live_view import LiveView
from kseg.etl.run.next_step import Planner, finished, next_step
from kseg.etl.run.open_transaction_lag import open_transaction_lags
from kseg.etl.run.report import EngineReport, RunReport
from kseg.etl.run.report_from_ledger import group_report, null_notes, report_of
from kseg.etl.source.errors import WorkersLost
from kseg.etl.telemetry.events import OffsetsObserved, PartitionView, RunPlanned
from kseg.etl.telemetry.progress import Progress
from kseg.segment_reader.log.errors import LogFileError

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from kseg.etl.run.land import LandingResult

T = TypeVar("T")

IDLE_RUNS_PER_MAINTENANCE: Final = 8
"""Every eighth run with nothing to do maintains the ledger, at the cost of one more read of the ledger. Each such run
has written two files, for its lease, and the next one opens all that there are, at half a millisecond each."""

Preparation = Callable[[PlanInputs, JobState], None]


def run_ingest(
    job: Job,
    *,
    take_over: bool = False,
    accept_group_offsets: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> RunReport:
    """The job's next incremental run, or the one that an earlier attempt left unfinished.

    take_over: take a lease that is still live. accept_group_offsets: go on from changed group offsets.

    Raises:
        AnotherRunActive: another run holds the lease, or took it over meanwhile.
        Refused: state does not agree or data is lost.
        RetriableFailure, KafkaError: the ledger's store or a broker is not available.
    """
    with JobContext.open(job, progress, observe) as context:
        if not _needs_no_brokers(context):
            context.check_group()
        return pursue(
            context,
            ev.INCREMENTAL,
            plan_incremental,
            take_over=take_over,
            accept_group_offsets=accept_group_offsets,
        )


def _needs_no_brokers(context: JobContext) -> bool:
    """Whether all that is left to do is to end an accounted run that commits no offsets: its brokers may be gone."""
    if context.job.commits_offsets:
        return False
    run = context.clients.read_state().unfinished(ev.INCREMENTAL)
    return run is not None and run.accounted is not None


def pursue(
    context: JobContext,
    chain: str,
    planner: Planner,
    *,
    take_over: bool,
    prepare: Preparation | None = None,
    accept_group_offsets: bool = False,
) -> RunReport:
    """Under the chain's lease: continue its unfinished run or plan a new one, and execute it.

    prepare: reads what the planner needs besides the inputs, before the plan's transition.
    """
    with context.run_lease(chain, take_over=take_over) as lease:
        try:
            context.progress.phase("plan")
            with context.stopwatch.phase("plan"):
                state, new = context.clients.read_state(), True
                planned: Draft | None = None
                if state.unfinished(chain) is not None:
                    new = not _take_up(context, lease, state, planner)
                    state = context.clients.read_state()
                if new:
                    state, planned = _plan(context, lease, state, planner, prepare, accept_group_offsets)
            run = state.unfinished(chain)
            if run is not None:
                report = execute(context, lease, state, run, new=new, accept_group_offsets=accept_group_offsets)
            else:
                report = _nothing_to_do(context, lease)
            if planned is not None:
                report.notes += [*planned_losses(planned.events), *planned.notes]
                report.unread = planned.left_to_later_runs
            return report
        except BaseException as error:
            record_failure(lease, error, context.job.secret_values())
            raise


def _take_up(context: JobContext, lease: Lease, state: JobState, planner: Planner) -> bool:
    """Whether the chain's unfinished run continues; one that does not is abandoned.

    Raises:
        Refused: as `next_step`.
    """
    step = next_step(LiveView(context), state, lease.chain, planner, lease.sign)
    run = step.run
    assert run is not None
    if step.kind == "abandon" and not run.abandoning:
        context.observe("abandon:before")
        fence_tables(context, lease, run)
        context.observe("abandon:fenced")
        # An earlier attempt may have landed rows since they were looked for. Behind the fence it cannot.
        step = next_step(LiveView(context), state, lease.chain, planner, lease.sign)
    if step.kind == "abandon":
        abandon_run(context, lease, run, step.why)
        if not run.abandoning:
            context.progress.message(f"run {run.run_id} is abandoned: {step.why}. Planning again")
        return False
    if step.events:
        lease.transition(lambda _: step.events)
    context.progress.message(f"continuing run {run.run_id} ({run.phase})")
    return True


def _plan(
    context: JobContext,
    lease: Lease,
    state: JobState,
    planner: Planner,
    prepare: Preparation | None,
    accept_group_offsets: bool,
) -> tuple[JobState, Draft | None]:
    """The state with a newly planned run, or without one where there is nothing to do; and the plan's draft.

    Other chains' runs work meanwhile. The plan is made within the transition, from the state that it is appended to, so
    it leaves out what they have reserved or landed by then; the inputs were read before (`planning.freshness`).
    """
    if finished(state, lease.chain) is not None:
        return state, None
    context.observe("plan:before")

    def read(state: JobState) -> PlanInputs:
        inputs = preflight(context.inputs, state, lease.chain, accept_group_offsets=accept_group_offsets)
        if prepare is not None:
            prepare(inputs, state)
        return inputs

    draft: Draft | None = None

    def planned(inputs: PlanInputs, state: JobState) -> Sequence[ev.Event]:
        nonlocal draft
        draft = next_step(LiveView(context, lambda _: inputs), state, lease.chain, planner, lease.sign).draft
        if draft is None:
            return ()
        for event in draft.events:
            if isinstance(event, ev.Planned):
                _expect_engine(context, event.plan)
        _check_planned(draft)
        return draft.events

    inputs, read_with = read(state), state

    def decide(state: JobState) -> Sequence[ev.Event]:
        nonlocal inputs, read_with
        current = inputs_as_of(inputs, read_with, state)
        if current is not None:
            try:
                return planned(current, state)
            except Refused:
                if read_with.sequence == state.sequence:
                    raise
                # What others have landed since may lie beyond what was read, as if records were lost.
        inputs, read_with = read(state), state
        return planned(inputs, state)

    after = lease.transition(decide)
    context.observe("plan:after")
    return after, draft


def _expect_engine(context: JobContext, plan: ev.RunPlan) -> None:
    """Let the processes that will probably read the plan's ranges load while the plan is written and the driver loads
    modules."""
    if plan.mode != REDRIVE:  # which reads in the driver
        context.engine.expect(sum(planned.length for planned in plan.ranges))


def _check_planned(draft: Draft) -> None:
    """Raises ConfigurationError: numbers of an expectation are not read as the same ones everywhere."""
    job, planned = draft.inputs.job, [event.plan for event in draft.events if isinstance(event, ev.Planned)]
    if job.decode is None or not planned:
        return
    # Not above: it loads decoders, and a run with nothing to do uses none.
    from kseg.etl.run.check_decode import refuse_odd_numbers

    for plan in planned:
        refuse_odd_numbers(job, plan, draft.state)


def execute(
    context: JobContext,
    lease: Lease,
    state: JobState,
    run: RunState,
    *,
    new: bool = False,
    accept_group_offsets: bool = False,
) -> RunReport:
    """Execute a planned run from its phase in this state to its end. new: planned by this attempt."""
    planned, run_id = run, run.run_id
    throttled: Mapping[int, float] = {}
    notes: tuple[str, ...] = ()
    _report_frontiers(context.progress, state)
    context.progress.event(RunPlanned(run.plan, lease.attempt, taken_up=not new))
    if run.accounted is None:
        _expect_engine(context, run.plan)
        # Not above: loading decoders, pandas and pyspark takes half a second, and a run with nothing to do uses none.
        from kseg.etl.run.land import land_and_account
        from kseg.etl.run.schemas import learn_schemas

        def land(first: bool) -> LandingResult:
            now = planned if first else context.clients.read_state().runs[run_id]
            earlier = not (new and first)
            while True:
                try:
                    return land_and_account(context, lease, now, earlier_attempt=earlier)
                except UnknownSchemas as unknown:
                    # None of the written files is committed. The loop ends: each time the run knows more schemas.
                    now, earlier = learn_schemas(context, lease, now, unknown), True

        landed = _retry_transient(context, land)
        run, throttled, notes = landed.run, landed.throttled, landed.notes
    # As the job file says now: its `group` may have been removed since the plan, or `group_commit` set to none.
    if run.plan.commit_offsets and context.job.commits_offsets and run.offsets_committed is None:
        _retry_transient(context, lambda _: _commit(context, lease, run, accept_group_offsets))
    context.observe("finish:before")
    state = lease.transition(lambda _: [_finished(context, run_id)])
    context.observe("finish:after")
    _report_frontiers(context.progress, state)
    run = state.runs[run_id]
    report = report_of(context.job.name, run, status="done", state=state)
    report.held_back = open_transaction_lags(context.clients.logs, run.plan.held_back)
    report.throttled = dict(throttled)
    if choice := context.engine.chosen:
        report.engine = EngineReport(choice.executor, choice.why)
    report.notes.extend([*notes, *null_notes(report), *literal_notes(context.job, run)])
    report.freshness = observed_freshness(context, state)
    report.seconds = context.stopwatch.seconds()
    maintain(context.clients.ledger, context.job.name)
    return report


def _retry_transient(context: JobContext, step: Callable[[bool], T]) -> T:
    """The result of a step, which is retried after transient failures until the run's deadline.

    step: called with whether this is its first try. A retry finds what the one before has done in ledger and tables,
    as a new process would.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

    def report_retry(state: RetryCallState) -> None:
        failure = state.outcome.exception() if state.outcome is not None else None
        pause = state.next_action.sleep if state.next_action is not None else 0
        context.progress.message(f"retrying in {pause:.0f} s: {failure}")

    tries = Retrying(
        retry=retry_if_exception(_is_transient),
        wait=wait_random_exponential(multiplier=1, min=1, max=60),
        stop=stop_after_delay(context.deadline.left()),
        before_sleep=report_retry,
        reraise=True,
    )
    for attempt in tries:
        with attempt, context.spark.typed_errors():
            return step(attempt.retry_state.attempt_number == 1)
    raise AssertionError("the last try returns or raises")


def _is_transient(failure: BaseException) -> bool:
    if not isinstance(failure, KsegError | KafkaError | LogFileError):
        return False
    if isinstance(failure, AnotherRunActive | WorkersLost):  # of which the latter has been tried again
        return False
    return failure.retriable


def _commit(context: JobContext, lease: Lease, run: RunState, accept_group_offsets: bool) -> None:
    context.progress.phase("commit")
    with context.stopwatch.phase("commit"):
        partitions = context.inputs.partitions()
        # Another client may have committed since the plan: a run that is continued may be days old.
        read_with = lease.read()
        view = context.inputs.group_view(partitions, accept=accept_group_offsets)
        if view is not None:
            # A sibling may commit between the read and the comparison.
            ends = _accepted_ends(context, view, read_with)
            lease.transition(
                lambda state: reconcile(group_as_of(view, read_with, state), state, ends, moves_offsets=True)
            )
        lease.check()
        context.observe("commit:before")
        offsets = _commit_frontier(context, lease, run.run_id, partitions)
        context.progress.event(OffsetsObserved({tp: PartitionView(committed=o.offset) for tp, o in offsets.items()}))
        context.observe("commit:after")
        event = ev.OffsetsCommitted(
            run_id=run.run_id, group=_group(context), how=_how(context), offsets=as_events(offsets)
        )
        lease.transition(lambda _: [event])


def _accepted_ends(context: JobContext, view: GroupView, state: JobState) -> EpochEnds:
    """The ends of the leader epochs of the group's offsets, if offsets of other clients are accepted."""
    if not view.accept:
        return {}
    return ends_of(context.inputs.at_brokers().logs, committed_epochs(view, state))


def _commit_frontier(
    context: JobContext, lease: Lease, run_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    """Commit the group's offsets. A run of files commits them at brokers, whose topics have to be the same ones."""
    inputs = context.inputs.at_brokers()
    return commit_frontier(
        context.clients.cluster,
        lease,
        context.job,
        run_id,
        partitions,
        lambda state: check_again(inputs, state),
        context.deadline,
    )


def _nothing_to_do(context: JobContext, lease: Lease) -> RunReport:
    """Nothing to read. If the chain commits the group's offsets, they are committed nevertheless: they may lag behind a
    frontier that a backfill has moved, and the offsets of a group without members expire without commits."""
    state = context.clients.read_state()
    done = state.runs.get(lease.chain)
    if done is not None and done.finished:
        report = report_of(context.job.name, done, status="nothing-to-do")
        report.notes.append(f"run {done.run_id} was finished before, at {done.ended_at}")
    else:
        mode = "incremental" if lease.chain == ev.INCREMENTAL else done.mode if done is not None else ""
        report = RunReport(context.job.name, None, mode, "nothing-to-do")
    _report_frontiers(context.progress, state)
    partitions = context.inputs.partitions()
    if lease.chain == ev.INCREMENTAL and context.job.commits_offsets and any(tp in state.bases for tp in partitions):
        last = next(reversed(state.runs), "-")
        offsets = _commit_frontier(context, lease, last, partitions)
        known = {tp: o.offset for tp, o in state.group_offsets(_group(context)).items()}
        event = ev.OffsetsCommitted(group=_group(context), how=_how(context), offsets=as_events(offsets))
        if {tp: o.offset for tp, o in offsets.items()} != known:
            lease.transition(lambda _: [event])
        report.group = group_report(event)
    report.freshness = observed_freshness(context, state)
    report.seconds = context.stopwatch.seconds()
    if lease.attempt % IDLE_RUNS_PER_MAINTENANCE == 0:
        maintain(context.clients.ledger, context.job.name)
    return report


def _how(context: JobContext) -> Literal["transactional", "plain"]:
    return "plain" if context.job.group_commit == "plain" else "transactional"


def _group(context: JobContext) -> str:
    """The group whose offsets are committed."""
    assert context.job.group is not None
    return context.job.group


def _finished(context: JobContext, run_id: str) -> ev.Finished:
    # With the default engine, ledgers have what earlier releases know.
    choice = context.engine.chosen if context.job.run.engine != "spark" else None
    return ev.Finished(
        run_id=run_id,
        seconds=context.stopwatch.seconds(),
        engine=choice.executor if choice else None,
        engine_reason=choice.why if choice else None,
    )


def _report_frontiers(progress: Progress, state: JobState) -> None:
    """Report where the next run starts, for all partitions that the ledger knows."""
    progress.event(OffsetsObserved({tp: PartitionView(frontier=state.frontier(tp)) for tp in state.bases}))
