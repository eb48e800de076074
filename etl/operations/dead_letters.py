"""How many dead letters a job has, by what became of them."""

from __future__ import annotations

from collections import Counter

from kseg.etl.ledger.dead_letters import ADDRESS, Letter, LetterStates
from kseg.etl.ledger.state import JobState
from kseg.etl.run.context import JobContext


def dead_letter_counts(context: JobContext, state: JobState) -> dict[str, int]:
    """Dead letters by their state (`etl.ledger.dead_letters`); empty where the job has no such table."""
    return dict(sorted(LetterStates(state).count(_letters(context)).items()))


def dead_letter_notes(context: JobContext, state: JobState) -> list[str]:
    """What `kseg verify` says of them: how many there are, and how many that the ledger counted are not there."""
    table = context.job.dead_letters
    letters = _letters(context)
    notes = []
    if counts := LetterStates(state).count(letters):
        counted = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
        notes.append(f"dead letters in {table}: {counted}; rows of them are not compared")
    there = Counter(letter.run_id for letter in letters)
    gone: dict[str, dict[str, int]] = {}
    for run in state.runs.values():
        decoding = run.accounted.counts.decoding if run.accounted is not None and not run.abandoned else None
        of_run = run.plan.dead_letters or table
        if decoding is None or of_run is None:
            continue
        missing = decoding.dead - (there[run.run_id] if of_run == table else 0)
        if missing > 0:
            gone.setdefault(of_run, {})[run.run_id] = missing
    for path, by_run in gone.items():
        if path != table:
            notes.append(
                f"{sum(by_run.values())} dead letters were committed to {path}, which the job file does not name any "
                "more: `kseg redrive` does not find them"
            )
            continue
        first = ", ".join(f"run {run_id}: {number}" for run_id, number in list(by_run.items())[:3])
        notes.append(f"{sum(by_run.values())} dead letters are not in {path} any more ({first})")
    return notes


def _letters(context: JobContext) -> list[Letter]:
    """All in the job's table, those of other jobs as well."""
    table = context.job.dead_letters
    access = context.targets.access(table) if table is not None else None
    rows = access.read(ADDRESS, {}) if access is not None else None
    if rows is None:
        return []
    return [Letter(*address) for address in zip(*(rows[name].to_pylist() for name in ADDRESS), strict=True)]
