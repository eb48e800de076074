"""Decides what happens next to a chain: one decision, of which a run makes events, and a plan without a run a report.

    unfinished run ── its abandonment was interrupted ──────────────────► abandon, then decide again
                   ── the job has changed, and nothing has landed ──────► abandon, then decide again
                   ── the job has changed, and rows have landed ────────► refused
                   ── its counts do not balance ────────────────────────► refused, or continue where the job accepts it
                   ── source or tables are not as they were planned ────► refused
                   ── otherwise ────────────────────────────────────────► continue
    no such run    ── a backfill or interval that has finished ─────────► nothing
                   ── the planner ──────────────────────────────────────► plan, nothing, or refused

A run decides under its lease (`pipeline.pursue`). `kseg plan`, `--dry-run` and `kseg check --connect` decide without
one (`foresee`) and write nothing: what abandoning a run would write is added to the state that they decide from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from kseg.etl.config.job import Job
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.plan import Draft, PlanInputs, Stamp, unwritten_lease
from kseg.etl.run.changed_plan import change_since

Planner = Callable[[Draft], ev.RunPlan | None]
"""Adds a run's events to a draft; None where there is nothing to do."""


class View(Protocol):
    """What a decision needs besides the ledger's state. It is read when it is asked for.

    job: as its file says now. copy: the job reads an older copy of some of its partitions (`--segments`).
    """

    @property
    def job(self) -> Job: ...

    @property
    def copy(self) -> bool: ...

    def has_landed(self, run: RunState) -> bool:
        """Whether a table of the run, beside its rows or for them, has its app transaction: an attempt may have died
        before it recorded that, or may be at it."""

    def check(self, state: JobState, run: RunState) -> None:
        """Raises Refused: the source or a table is not what the run was planned with."""

    def inputs(self, state: JobState) -> PlanInputs:
        """Snapshot of the source, tables and group, for a plan. Raises as `preflight`."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """One decision.

    run: the unfinished run that continues or is abandoned; or the finished one, for which there is nothing to do.
    why: why it is abandoned. events: to be written before a run continues. draft: the plan's, also where the planner
    has found nothing to read.
    """

    kind: Literal["continue", "abandon", "plan", "nothing"]
    run: RunState | None = None
    why: str = ""
    events: Sequence[ev.Event] = ()
    draft: Draft | None = None


def next_step(view: View, state: JobState, chain: str, planner: Planner, stamp: Stamp) -> NextStep:
    """Decide from these values alone; nothing is written. stamp: signs the events of a plan.

    Raises:
        Refused: a person has to decide.
        what `view.inputs` and the planner raise.
    """
    left = state.unfinished(chain)
    if left is not None:
        return _of_unfinished(view, state, left)
    if (done := finished(state, chain)) is not None:
        return NextStep("nothing", done)
    draft = Draft(view.inputs(state), state, stamp)
    return NextStep("nothing" if planner(draft) is None else "plan", draft=draft)


def finished(state: JobState, chain: str) -> RunState | None:
    """The run of a backfill or an interval that was finished before."""
    done = state.runs.get(chain)
    return done if done is not None and done.finished else None


def _of_unfinished(view: View, state: JobState, run: RunState) -> NextStep:
    if run.abandoning:
        return NextStep("abandon", run, "an abandonment that was interrupted")
    changed = None if run.accounted is not None else change_since(view.job, run, copy=view.copy)
    if changed is not None:
        if run.landed or view.has_landed(run):
            raise Refused.of("configuration-changed", {"changed": changed}, run=run.run_id)
        return NextStep("abandon", run, f"nothing had landed, and {changed}")
    events = _cleared(view.job, run) if run.account_failed is not None else ()
    if run.accounted is None:
        view.check(state, run)
    return NextStep("continue", run, events=events)


def _cleared(job: Job, run: RunState) -> Sequence[ev.Event]:
    """The event that lets a run with a failed account continue."""
    failed = run.account_failed
    assert failed is not None
    gaps_only = failed.equation == "offsets" and all(account.balanced for account in failed.ranges)
    if gaps_only and job.source.on_gap == "record":
        return (ev.AccountCleared(run_id=run.run_id, reason="on_gap: record"),)
    from kseg.etl.run.account import ways_out

    values = {"reason": failed.reason, "ways_out": ways_out(run.run_id, failed)}
    case = "run again, with gaps alone" if gaps_only else "run again"
    raise Refused.of("account-failed", values, case=case, run=run.run_id)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The step that a run would take now. step: to continue, to plan, or nothing. abandoned: what it would abandon
    before."""

    step: NextStep
    abandoned: NextStep | None = None


def foresee(view: View, state: JobState, chain: str, planner: Planner) -> Foreseen:
    """Decide without a lease. Raises as `next_step`."""
    state, stamp = unwritten_lease(state, chain)
    first = next_step(view, state, chain, planner, stamp)
    if first.kind != "abandon" or first.run is None:
        return Foreseen(first)
    state = without(state, first.run, stamp)
    return Foreseen(next_step(view, state, chain, planner, stamp), first)


def without(state: JobState, run: RunState, stamp: Stamp) -> JobState:
    """The state after this run has been abandoned, as far as plans depend on it."""
    landed_in = tuple(run.landed) if run.landed_in is None else run.landed_in
    events: list[ev.Event] = [] if run.abandoning else [ev.Abandoning(run_id=run.run_id, landed_in=landed_in)]
    events.append(ev.Abandoned(run_id=run.run_id, landed_in=landed_in))
    return fold(state, [Entry(stamp(event), datetime.now(UTC), state.sequence) for event in events])
