"""How many dead letters a job has, by what became of them."""

from __future__ import annotations

from kseg.etl.ledger.dead_letters import ADDRESS, Letter, LetterStates
from kseg.etl.ledger.state import JobState
from kseg.etl.run.context import JobContext


def dead_letter_counts(context: JobContext, state: JobState) -> dict[str, int]:
    """Dead letters by their state (`etl.ledger.dead_letters`); empty where the job has no such table."""
    table = context.job.dead_letters
    access = context.targets.access(table) if table is not None else None
    rows = access.read(ADDRESS, {}) if access is not None else None
    if rows is None:
        return {}
    letters = (Letter(*address) for address in zip(*(rows[name].to_pylist() for name in ADDRESS), strict=True))
    return dict(sorted(LetterStates(state).count(letters).items()))
