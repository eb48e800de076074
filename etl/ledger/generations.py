"""The generations of partitions that runs have read, also of runs that a summary has dropped or a ledger has lost.

Incremental runs are numbered, and the ledger keeps the number of the last run before each accepted change of the
source. So it need not keep each run that came after a change: rows and dead letters have the id of their run, with its
number.
"""

from __future__ import annotations

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import JobState, RunState


def generation_read(state: JobState, run_id: str, tp: TopicPartition) -> int:
    """The partition's generation that a run of this job and ledger has read.

    0 for a run that a summary has dropped and whose id has no number (`run_ids`), since none of a later generation is
    dropped.
    """
    run = state.runs.get(run_id)
    if run is not None:
        return state.generation_of(run, tp)
    parts = parse_run_id(run_id)
    if parts is None or parts.number is None:
        return 0
    return sum(1 for last in state.reopened_after.get(tp, ()) if last < parts.number)


def is_of_lost(state: JobState, run_id: str) -> bool:
    """Whether a run's id has the mark of a ledger that this one replaces."""
    parts = parse_run_id(run_id)
    return parts is not None and any(parts.mark == mark_of(ledger, state.job) for ledger in state.lost_ledgers)


def generation_of_lost(state: JobState, run_id: str, tp: TopicPartition) -> int | None:
    """The partition's generation that a run of a lost ledger has read.

    None where it is not known: tables' histories did not go back to the run, or the ledger was rebuilt by an earlier
    release, which did not record it.
    """
    if state.lost_runs is not None:
        return state.lost_runs.generation(run_id, tp)
    had_several = 0 in state.reopened_after.get(tp, (0,) * state.generation(tp))
    return None if had_several else 0


def is_shown_by_id(state: JobState, run: RunState) -> bool:
    """Whether `generation_read` needs no more than the id of this run."""
    if not run.plan.generations:
        return True
    parts = parse_run_id(run.run_id)
    return (
        parts is not None
        and parts.number is not None
        and all(len(state.reopened_after.get(tp, ())) == state.generation(tp) for tp in run.plan.generations)
    )
