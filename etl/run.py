"""One run of a job, step by step: lease, plan, land, account, commit, finish. What each step rests on: ARCHITECTURE.md.

Every step reads what it needs from the ledger, so that a run that died anywhere is taken up by calling the same steps
again: those that are written down already are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Literal

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from client.errors import KafkaError
from etl.abandon import abandon_run
from etl.config import Job
from etl.context import JobContext, Observer
from etl.drift import reconcile
from etl.errors import AnotherRunActive, KsegError, Refused
from etl.group_commit import as_events, commit_frontier, fence
from etl.held_back import held_back
from etl.identity import check_epochs, check_source
from etl.land import land_and_account
from etl.ledger import events as ev
from etl.ledger.errors import LeaseLost
from etl.ledger.lease import Lease
from etl.ledger.maintenance import maintain
from etl.ledger.state import JobState, RunState
from etl.plan import Draft, Seen, plan_incremental
from etl.progress import Progress
from etl.report import GroupReport, RunReport
from etl.run_report import report_of
from segment_reader.log.errors import LogFileError

Planner = Callable[[Draft], ev.RunPlan | None]
"""Adds a run's events to a draft; None where there is nothing to do."""


def run_ingest(
    job: Job,
    *,
    take_over: bool = False,
    accept_group_offsets: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> RunReport:
    """The job's next incremental run, or the one that an earlier attempt left unfinished.

    take_over: take a lease that is still live. accept_group_offsets: go on from group offsets that somebody changed.
    dry_run: plan, and write nothing.

    Raises:
        AnotherRunActive: another run holds the lease, or took it over meanwhile.
        Refused: state does not agree or data is lost.
        RetriableFailure, KafkaError: the ledger's store or a broker is away.
    """
    if dry_run:
        return plan_only(job, accept_group_offsets=accept_group_offsets, progress=progress)
    with JobContext.open(job, progress, observe) as context:
        context.refuse_live_group()
        run_id = uuid.uuid4().hex
        return pursue(
            context,
            ev.INCREMENTAL,
            lambda draft: plan_incremental(draft, run_id),
            take_over=take_over,
            accept_group_offsets=accept_group_offsets,
        )


def plan_only(job: Job, *, accept_group_offsets: bool = False, progress: Progress | None = None) -> RunReport:
    """What `run_ingest` would read now; nothing is written anywhere, and a lease that others hold does not matter."""
    with JobContext.open(job, progress, ledger="optional") as context:
        state = context.read_state()
        unfinished = state.unfinished()
        if unfinished is not None:
            report = report_of(job.name, unfinished, status="dry-run")
            report.notes.append(f"run {unfinished.run_id} is unfinished ({unfinished.phase}) and would be taken up")
            return report
        draft = Draft.unwritten(_look(context, state, ev.INCREMENTAL, accept_group_offsets), state)
        plan = plan_incremental(draft, "dry-run")
        if plan is None:
            return RunReport(job.name, None, "incremental", "nothing-to-do", seconds=context.stopwatch.seconds())
        report = report_of(job.name, draft.state.runs[plan.run_id], status="dry-run")
        report.run_id = None
        report.held_back = held_back(context.logs, plan.held_back)
        report.seconds = context.stopwatch.seconds()
        return report


def pursue(
    context: JobContext,
    chain: str,
    planner: Planner,
    *,
    take_over: bool,
    accept_group_offsets: bool = False,
) -> RunReport:
    """Under the chain's lease: take up its unfinished run or plan a new one, and carry it out."""
    with context.lease(chain, take_over=take_over) as lease:
        try:
            context.progress.phase("plan")
            with context.stopwatch.phase("plan"):
                if context.commits_offsets and context.job.group_commit == "transactional":
                    fence(context.cluster, context.job, context.ledger.id)
                run = _take_up(context, lease) or _plan(context, lease, planner, accept_group_offsets)
            if run is not None:
                return execute(context, lease, run.run_id, accept_group_offsets=accept_group_offsets)
            return _nothing_to_do(context, lease)
        except Refused as refused:
            try:
                note = ev.RunRefused(run_id=_run_id(context, chain), code=refused.code, message=str(refused))
                lease.transition(lambda _: [note])
            except LeaseLost as lost:
                # What was found may be the other's work: its rows in a table make this run's ledger look old.
                raise lost from refused
            except KsegError:
                pass  # the refusal itself is what has to be told
            raise


def _run_id(context: JobContext, chain: str) -> str:
    run = context.read_state().unfinished(chain)
    return run.run_id if run is not None else ""


def _take_up(context: JobContext, lease: Lease) -> RunState | None:
    """The chain's unfinished run, if it may go on; one that has landed nothing and is out of date is abandoned.

    Raises:
        Refused: its rows stand in tables and it cannot go on as it is; a person has to decide.
    """
    state = context.read_state()
    run = state.unfinished(lease.chain)
    if run is None:
        return None
    if run.abandoning:
        abandon_run(context, lease, run, "an abandonment that was interrupted")
        return None
    if run.accounted is None and run.config_hash != context.job.config_hash:
        if run.landed or _stands_in_a_table(context, run):
            raise Refused(
                "configuration-changed",
                f"run {run.run_id} has landed in some of its tables, with a configuration that is not this one",
                remedy=f"`kseg repair --finish {run.run_id}` goes on as it was pinned, `--abandon` removes its rows",
                run=run.run_id,
            )
        abandon_run(context, lease, run, "the configuration changed before anything had landed")
        context.progress.message(f"run {run.run_id} had landed nothing: planning anew with the changed configuration")
        return None
    if run.account_failed is not None:
        _clear_or_refuse(context, lease, run)
    if run.accounted is None:
        check_source(context.snapshot(), state)
    context.progress.message(f"taking up run {run.run_id} ({run.phase})")
    return run


def _stands_in_a_table(context: JobContext, run: RunState) -> bool:
    """Whether an attempt landed without living to write it down."""
    app_id, version = run.plan.app_id, run.plan.app_version
    return any(context.targets.transaction_version(table, app_id) >= version for table in run.plan.tables)


def _clear_or_refuse(context: JobContext, lease: Lease, run: RunState) -> None:
    failed = run.account_failed
    assert failed is not None
    gaps_only = failed.equation == "offsets" and all(account.balanced for account in failed.ranges)
    if gaps_only and context.job.source.on_gap == "record":
        lease.transition(lambda _: [ev.AccountCleared(run_id=run.run_id, reason="on_gap: record")])
        return
    raise Refused(
        "account-failed",
        f"the account of run {run.run_id} does not hold: {failed.reason}",
        remedy=("set source.on_gap: record, or " if gaps_only else "")
        + f"`kseg repair --finish {run.run_id}` reads and accounts again, `--abandon` removes its rows",
        run=run.run_id,
    )


def _plan(context: JobContext, lease: Lease, planner: Planner, accept_group_offsets: bool) -> RunState | None:
    state = context.read_state()
    done = state.runs.get(lease.chain)
    if done is not None and done.finished:
        return None  # this very backfill or interval was met before
    context.observe("plan:before")
    seen, seen_at = _look(context, state, lease.chain, accept_group_offsets), state.sequence

    def decide(state: JobState) -> Sequence[ev.Event]:
        nonlocal seen, seen_at
        if state.sequence != seen_at:
            # Runs of other chains go on meanwhile. What they land may lie beyond what the brokers told before, and
            # would look like records that were lost since.
            seen, seen_at = _look(context, state, lease.chain, accept_group_offsets), state.sequence
        draft = context.draft(seen, state, lease)
        planner(draft)
        return draft.events

    after = lease.transition(decide)
    context.observe("plan:after")
    return after.unfinished(lease.chain)


def _look(context: JobContext, state: JobState, chain: str, accept_group_offsets: bool) -> Seen:
    """All that a plan is made from, checked against a state that was read before."""
    seen = context.see(state, accept_group_offsets=accept_group_offsets)
    check_epochs(context.logs, seen.snapshot, state)
    tables = [table for table, there in seen.tables.items() if there is not None]
    chains = {ev.INCREMENTAL, chain}
    landed = {(table, of): _landed_run(context, table, state, of) for table in tables for of in chains}
    # Read after the tables: every run is planned in the ledger before it can land.
    now = context.read_state()
    for (table, of), version in landed.items():
        app_id, following = now.next_app_transaction(of)
        if version >= following:
            raise Refused(
                "ledger-older-than-table",
                f"the table has landed transaction {version} of {app_id}, and the ledger knows of {following - 1}",
                remedy="use the ledger that this table was landed with: this one was restored from a copy",
                table=table,
            )
    return seen


def _landed_run(context: JobContext, table: str, state: JobState, chain: str) -> int:
    """The number of the last run of a chain that landed in a table."""
    return context.targets.transaction_version(table, state.next_app_transaction(chain)[0])


def execute(context: JobContext, lease: Lease, run_id: str, *, accept_group_offsets: bool = False) -> RunReport:
    """Carry a planned run out from wherever it stands, to its end."""
    run = context.read_state().runs[run_id]
    if run.accounted is None:
        _persist(context, lambda: land_and_account(context, lease, context.read_state().runs[run_id]))
        run = context.read_state().runs[run_id]
    if run.plan.commit_offsets and run.offsets_committed is None:
        _persist(context, lambda: _commit(context, lease, run, accept_group_offsets))
    context.observe("finish:before")
    state = lease.transition(lambda _: [ev.Finished(run_id=run_id, seconds=context.stopwatch.seconds())])
    context.observe("finish:after")
    run = state.runs[run_id]
    report = report_of(context.job.name, run, status="done")
    report.group = _group_report(context, run.offsets_committed)
    report.held_back = held_back(context.logs, run.plan.held_back)
    report.throttled = context.throttled
    report.seconds = context.stopwatch.seconds()
    maintain(context.ledger, context.job.name)
    return report


def _persist(context: JobContext, step: Callable[[], None]) -> None:
    """Do a step, and do it again after failures that may pass, until the run's deadline.

    What an attempt has done already the next one finds in ledger and tables, as a new process would.
    """

    def tell(state: RetryCallState) -> None:
        failure = state.outcome.exception() if state.outcome is not None else None
        pause = state.next_action.sleep if state.next_action is not None else 0
        context.progress.message(f"trying again in {pause:.0f} s: {failure}")

    left = context.job.run.deadline.total_seconds() - context.stopwatch.seconds()["total"]
    Retrying(
        retry=retry_if_exception(_may_pass),
        wait=wait_random_exponential(multiplier=1, min=1, max=60),
        stop=stop_after_delay(max(left, 0)),
        before_sleep=tell,
        reraise=True,
    )(step)


def _may_pass(failure: BaseException) -> bool:
    if isinstance(failure, AnotherRunActive) or not isinstance(failure, KsegError | KafkaError | LogFileError):
        return False
    return failure.retriable


def _commit(context: JobContext, lease: Lease, run: RunState, accept_group_offsets: bool) -> None:
    context.progress.phase("commit")
    with context.stopwatch.phase("commit"):
        partitions = context.snapshot().partitions
        # Since the plan somebody may have moved them by hand: a run that was taken up may be days old.
        view = context.group_view(partitions, accept=accept_group_offsets)
        if view is not None:
            lease.transition(lambda state: reconcile(view, state, moves_offsets=True))
        lease.check()
        context.observe("commit:before")
        offsets = commit_frontier(context.cluster, context.ledger, context.job, run.run_id, partitions)
        context.observe("commit:after")
        event = ev.OffsetsCommitted(
            run_id=run.run_id, group=context.group, how=_how(context), offsets=as_events(offsets)
        )
        lease.transition(lambda _: [event])


def _nothing_to_do(context: JobContext, lease: Lease) -> RunReport:
    """Nothing to read. The group's offsets are committed all the same where the chain commits any: they may lag behind
    the frontier that a backfill has moved, and a group without members expires when nobody commits."""
    state = context.read_state()
    done = state.runs.get(lease.chain)
    if done is not None:
        report = report_of(context.job.name, done, status="nothing-to-do")
        report.notes.append(f"run {done.run_id} was finished before, at {done.ended_at}")
    else:
        report = RunReport(
            context.job.name, None, "incremental" if lease.chain == ev.INCREMENTAL else "", "nothing-to-do"
        )
    partitions = context.snapshot().partitions
    if lease.chain == ev.INCREMENTAL and context.commits_offsets and any(tp in state.bases for tp in partitions):
        last = next(reversed(state.runs), "-")
        offsets = commit_frontier(context.cluster, context.ledger, context.job, last, partitions)
        known = {tp: o.offset for tp, o in state.group_offsets(context.group).items()}
        event = ev.OffsetsCommitted(group=context.group, how=_how(context), offsets=as_events(offsets))
        if {tp: o.offset for tp, o in offsets.items()} != known:
            lease.transition(lambda _: [event])
        report.group = _group_report(context, event)
    report.seconds = context.stopwatch.seconds()
    return report


def _how(context: JobContext) -> Literal["transactional", "plain"]:
    return "plain" if context.job.group_commit == "plain" else "transactional"


def _group_report(context: JobContext, committed: ev.OffsetsCommitted | None) -> GroupReport | None:
    if committed is None:
        return None
    offsets: dict[str, dict[int, int]] = {}
    for tp, offset in sorted(committed.offsets.items()):
        offsets.setdefault(tp.topic, {})[tp.partition] = offset.offset
    return GroupReport(committed.group, committed.how, offsets)
