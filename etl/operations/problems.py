"""Problems of a job that a person must solve: failed and interrupted runs, different offsets or tables, stale data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from kseg.etl.config.job import Job
from kseg.etl.errors import KsegError, Refused, listed
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.holder_process import known_dead
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.group_reconciliation import GroupView, reconcile
from kseg.etl.run.changed_plan import change_since
from kseg.etl.run.data_freshness import Freshness


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem that a person must solve.

    code: of the refusal, or the class of the error; `interrupted` for a run that stopped without an error.
    at: when it was found; None if that is not known, or if it was found now. run: the unfinished run.
    """

    code: str
    message: str
    remedy: str | None
    at: str | None = None
    run: str | None = None


def run_problems(job: Job, state: JobState, now: datetime) -> Iterator[Problem]:
    """Chains whose last attempt failed. A chain whose lease is held by a live process is running: it is no problem."""
    chains = dict.fromkeys([INCREMENTAL, *(run.chain for run in state.unfinished_runs())])
    for chain in chains:
        lease = state.lease(chain)
        if lease is not None and lease.live(now) and not known_dead(lease.owner):
            continue
        run = state.unfinished(chain)
        if run is not None:
            yield _unfinished(job, run)
            continue
        note = state.last_refused
        planning = note is not None and not note.run_id and note.chain == chain
        if note is not None and planning and note.at is not None and lease is not None and lease.since <= note.at:
            remedy = note.remedy or "run the job again"
            yield Problem(note.code, f"the last run could not be planned: {note.message}", remedy, note.at.isoformat())


def _unfinished(job: Job, run: RunState) -> Problem:
    goes_on = f"{_continues(job, run)}; or `kseg repair JOB --abandon {run.run_id}`"
    note = run.refused
    if note is None:
        text = f"run {run.run_id} ended without an error of its own ({run.phase}): it was killed, or its host died"
        return Problem("interrupted", text, goes_on, run.planned_at.isoformat(), run.run_id)
    at = note.at.isoformat() if note.at is not None else None
    return Problem(
        note.code, f"run {run.run_id} failed ({run.phase}): {note.message}", note.remedy or goes_on, at, run.run_id
    )


def _continues(job: Job, run: RunState) -> str:
    """The command that completes an unfinished run. The next ingest continues only runs of the incremental chain, and
    one that has landed with another job file only `--finish` completes."""
    changed = change_since(job, run, copy=False) if run.accounted is None else None
    if changed is not None:
        as_planned = f"`kseg repair JOB --finish {run.run_id}` completes it as it was planned: {changed}"
        if run.chain != INCREMENTAL or run.landed:
            return as_planned
        # The ledger may not know yet of rows in a table; the next run looks.
        return f"run the job again: it abandons run {run.run_id}, unless rows of it have landed; then {as_planned}"
    if run.chain == INCREMENTAL:
        return f"run the job again: it continues run {run.run_id}"
    if run.mode == REDRIVE:
        return f"`kseg redrive JOB` completes run {run.run_id}"
    return f"`kseg repair JOB --finish {run.run_id}` completes it"


def group_problem(view: GroupView | None, state: JobState) -> Iterator[Problem]:
    """Why the next run would refuse the group's offsets. view: None if the job has no group."""
    try:
        if view is not None:
            reconcile(view, state, {}, moves_offsets=True)
    except Refused as refused:
        yield Problem(refused.code, refused.without_remedy, refused.to_do)


def freshness_problem(found: Freshness) -> Iterator[Problem]:
    """Partitions whose oldest record that has not landed is older than `reporting.freshness`, or of unknown age."""
    if found.late:
        assert found.limit is not None
        text = f"records older than reporting.freshness ({found.limit:g} s) have not landed: {listed(found.late)}"
        remedy = "run the job; where it runs already, run it more often, or raise the limit"
        yield Problem("not-fresh", f"{text}; the oldest is {found.seconds or 0:.0f} s old", remedy)
    if found.unknown and found.limit is not None:
        text = f"reporting.freshness is set, and the age of records that have not landed is unknown: {found.why}"
        remedy = "let the account read the topics (READ); where records have no timestamps, unset reporting.freshness"
        yield Problem("freshness-unknown", f"{text} ({listed(found.unknown)})", remedy)


def table_problem(error: KsegError) -> Problem | None:
    """Why a run would refuse a table; None if its store is only unavailable at the moment."""
    if error.retriable:
        return None
    return Problem(error.code if isinstance(error, Refused) else error.kind, error.without_remedy, error.to_do)
