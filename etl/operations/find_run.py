"""Find a run by its id or a unique prefix of it, as users copy it from `kseg status` or a row's `_kseg_run`."""

from __future__ import annotations

from typing import Final

from kseg.etl.errors import Refused
from kseg.etl.ledger.state import JobState, RunState

_MOST_LISTED: Final = 5


def find_run(state: JobState, given: str) -> RunState:
    """The run with this id; otherwise the only run whose id, with or without its mark, begins with `given`.

    All run ids of a job in a ledger begin with the same mark (`etl.ledger.run_ids`), so a mark alone identifies no run.

    Raises:
        Refused: there is no such run (`no-such-run`), or more than one (`ambiguous-run`).
    """
    if given in state.runs:
        return state.runs[given]
    found = [run for run_id, run in state.runs.items() if given and matches(run_id, given)]
    if not found:
        unfinished = ", ".join(run.run_id for run in state.unfinished_runs()) or "none"
        raise Refused.of("no-such-run", {"unfinished": unfinished}, case="id", run=given)
    if len(found) > 1:
        newest = [f"{run.run_id} ({run.mode}, {run.phase})" for run in reversed(found)][:_MOST_LISTED]
        more = f", and {len(found) - len(newest)} before" if len(found) > len(newest) else ""
        raise Refused.of(
            "ambiguous-run", {"count": len(found), "found": ", ".join(newest) + more}, case="runs", run=given
        )
    return found[0]


def matches(run_id: str, given: str) -> bool:
    """Whether a run's id, with or without its mark, begins with `given`."""
    return run_id.startswith(given) or run_id.partition("-")[2].startswith(given)
