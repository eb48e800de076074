"""The generations of partitions that runs have read, also of runs that a summary has dropped.

Incremental runs are numbered, and the ledger keeps the number of the last run before each accepted change of the
source. So it need not keep each run that came after a change: rows and dead letters have the id of their run, with its
number.
"""

from __future__ import annotations

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.run_ids import parse_run_id
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
