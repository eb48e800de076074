"""What became of a job's dead letters, as its ledger tells.

A dead letter is an address and the run that could not decode it. From the ledger follows whether it is

    open       nothing has landed the record since
    redriven   a later redrive has landed it (`kseg redrive`)
    replaced   a later replacement has read the record again: it is a row now, or a dead letter of that run
    pending    its run has no account yet, or was abandoned
    stale      its offset means another record today (a source that was accepted)

Nothing is written to the dead-letter table: a redrive that dies before its account has not happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState, RunState

REDRIVE: Final = "redrive"
EMPTY: Final = OffsetSet()
LetterState = Literal["open", "redriven", "replaced", "pending", "stale"]

ADDRESS = ("topic", "partition", "offset", "_kseg_run")
"""The columns that say which dead letter a row of the table is."""


class Letter(NamedTuple):
    """One dead letter. run_id: of the run that could not decode it."""

    topic: str
    partition: int
    offset: int
    run_id: str

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def read_again(run: RunState) -> dict[TopicPartition, OffsetSet]:
    """The offsets that a redrive or a replacement has read again; of any other run none."""
    if run.mode not in (REDRIVE, "backfill-replace") or run.accounted is None or run.abandoned:
        return {}
    if run.archived:
        return run.read_again
    kept = run.kept or {}
    return {tp: offsets.subtract(kept.get(tp, EMPTY)) for tp, offsets in run.plan.offsets().items()}


def may_have_dead_letters(state: JobState) -> bool:
    """Whether runs that the ledger knows of may have dead letters."""
    archived = state.archive.counts.decoding
    return (archived is not None and archived.dead > 0) or any(
        run.plan.dead_letters is not None for run in state.runs.values()
    )


class LetterStates:
    """The states of dead letters by one state of the ledger."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._number = {run_id: number for number, run_id in enumerate(state.runs)}
        self._since: list[tuple[int, RunState, dict[TopicPartition, OffsetSet]]] = []
        for number, run in enumerate(state.runs.values()):
            if read := read_again(run):
                self._since.append((number, run, read))

    def of(self, letter: Letter) -> LetterState:
        """The state of a letter. One whose run the ledger has dropped from its list counts as older than all others."""
        state, tp = self._state, letter.tp
        run = state.runs.get(letter.run_id)
        if run is not None and (run.accounted is None or run.abandoned):
            return "pending"
        generation = state.generation_of(run, tp) if run is not None else 0
        is_current = letter.offset < state.current_below(tp, generation)
        number = self._number.get(letter.run_id, -1)
        for later, by, offsets in reversed(self._since):
            same = is_current or state.generation_of(by, tp) == generation
            if same and later > number and letter.offset in offsets.get(tp, EMPTY):
                return "redriven" if by.mode == REDRIVE else "replaced"
        return "open" if is_current else "stale"

    def count(self, letters: Iterable[Letter]) -> dict[LetterState, int]:
        """How many letters there are in each state that any has."""
        return dict(Counter(map(self.of, letters)))
