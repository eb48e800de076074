"""The states of a job's dead letters, derived from its ledger.

A dead letter is an address and the run that could not decode its record. Its state is

    open       the record has not landed since
    expired    open or unknown, but retention has deleted the dead letter
    redriven   a later redrive has landed the record (`kseg redrive`)
    replaced   a later replacement has read the record again: it is a row now, or a dead letter of that run; or the
               replacement was abandoned after its commit, and the next run that plans the offset reads it again
    appended   a later `--mode append` has landed the record (for records with a row, this adds a second one)
    kept       its run is a replacement; another attempt of it has landed, and has kept the offset's earlier rows
    pending    its run is not accounted for yet, or was abandoned; or its offset is open: the next run reads it again
    stale      its offset now belongs to another record (a changed source was accepted)
    unknown    its run is in a lost ledger, and no run has read the record again since that was rebuilt: what had landed
               before is not known
    other      its run is another job's, or there is none

States are not written to the dead-letter table: a redrive that dies before it is accounted for has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.expired_letters import has_expired
from kseg.etl.ledger.generations import generation_of_lost, generation_read, is_of_lost
from kseg.etl.ledger.modes import MODES, LandedAgain
from kseg.etl.ledger.ranges import OffsetSet, offsets_of
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import JobState, RunState

REDRIVE: Final = "redrive"
EMPTY: Final = OffsetSet()
LetterState = Literal[LandedAgain, "open", "expired", "kept", "pending", "stale", "unknown", "other"]

REDRIVABLE: Final[frozenset[LetterState]] = frozenset({"open", "redriven", "replaced", "appended", "kept"})
"""States of letters whose bytes are those of the current record at their offset."""

ADDRESS = ("topic", "partition", "offset", "_kseg_run")
"""The columns that identify a dead letter in the table."""


class Letter(NamedTuple):
    """One dead letter. run_id: of the run that could not decode it; "" for a row that no run has written."""

    topic: str
    partition: int
    offset: int
    run_id: str

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def letters_of(columns: Iterable[Sequence[Any]]) -> list[Letter]:
    """Rows of a dead-letter table. columns: the values of `ADDRESS`."""
    return [Letter(topic, partition, offset, run or "") for topic, partition, offset, run in zip(*columns, strict=True)]


def read_again(run: RunState) -> dict[TopicPartition, OffsetSet]:
    """The offsets of which dead letters of earlier runs are no longer open because of this run."""
    if run.archived:
        return run.read_again
    if MODES[run.mode].letters is None or (run.accounted is None and not run.abandoned):
        return {}
    planned = run.plan.offsets()
    if run.abandoned:
        # A replacement has removed earlier rows, and its offsets are open again; others have changed nothing.
        taken = {*run.landed, *(run.landed_in or ())} if run.plan.replaces else ()
        planned = offsets_of(r for r in run.plan.ranges if r.table in taken)
    kept = run.kept or {}
    return {tp: read for tp, offsets in planned.items() if (read := offsets.subtract(kept.get(tp, EMPTY)))}


def may_have_dead_letters(state: JobState) -> bool:
    """Whether runs in the ledger may have dead letters."""
    archived = state.archive.counts.decoding
    return (archived is not None and archived.dead > 0) or any(
        run.plan.dead_letters is not None for run in state.runs.values()
    )


class LetterStates:
    """The states of dead letters at one state of the ledger."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._number = {run_id: number for number, run_id in enumerate(state.runs)}
        self._since: list[tuple[int, RunState, dict[TopicPartition, OffsetSet]]] = [
            (number, run, read) for number, run in enumerate(state.runs.values()) if (read := read_again(run))
        ]
        self._read = {run.run_id: read for _, run, read in self._since}
        self._mark = mark_of(state.ledger_id, state.job)
        self._foreign = lru_cache(maxsize=None)(self._foreign_state)

    def of(self, letter: Letter) -> LetterState:
        """The state of a letter. If a summary has dropped its run, the letter counts as older than all listed runs."""
        state, tp = self._state, letter.tp
        run = state.runs.get(letter.run_id)
        foreign = self._foreign(letter.run_id) if run is None else None
        if foreign == "other":
            return foreign
        if run is not None and (run.accounted is None or run.abandoned):
            return "pending"
        if run is not None and run.plan.replaces and letter.offset not in self._of_run(run, tp):
            return "kept"
        lost = foreign is not None
        generation = (generation_of_lost if lost else generation_read)(state, letter.run_id, tp)
        gone = has_expired(state.expired_letters, letter.run_id, tp, letter.offset)
        if generation is None:
            return "expired" if gone else "unknown"
        is_current = letter.offset < state.current_below(tp, generation)
        if not is_current:  # whatever has become of it: the offset has another record now, and maybe its own letter
            return "stale"
        number = self._number.get(letter.run_id, -1)
        for later, by, offsets in reversed(self._since):
            # A run of an earlier generation came later only if the letter's was dropped.
            if state.generation_of(by, tp) >= generation and later > number and letter.offset in offsets.get(tp, EMPTY):
                again = MODES[by.mode].letters
                assert again is not None
                return again
        if not lost and letter.offset not in state.landed(tp):
            return "pending"
        return "expired" if gone else "unknown" if lost else "open"

    def has_run(self, letter: Letter) -> bool:
        """Whether it is known which job and ledger the letter's run is of, and so which generation it has read: by the
        ledger, or by the run's id. Runs with ids of releases up to 0.1 had no dead letters, unless the ledger has them.
        """
        return letter.run_id in self._state.runs or parse_run_id(letter.run_id) is not None

    def is_own(self, run_id: str) -> bool:
        """Whether a run is one of this job in this ledger, even if a summary has dropped it."""
        return run_id in self._state.runs or self._foreign(run_id) is None

    def is_of_lost(self, run_id: str) -> bool:
        """Whether a run is one of this job in a ledger that this one replaces."""
        return run_id not in self._state.runs and self._foreign(run_id) == "unknown"

    def expired(self) -> Iterator[Letter]:
        """All letters that retention has deleted, whatever their state."""
        for run_id, partitions in self._state.expired_letters.items():
            for tp, offsets in partitions.items():
                for start, end in offsets:
                    yield from (Letter(tp.topic, tp.partition, offset, run_id) for offset in range(start, end))

    def count(self, letters: Iterable[Letter]) -> dict[LetterState, int]:
        """The number of the job's letters by state, without states that none has."""
        counts = Counter(map(self.of, letters))
        return {name: number for name, number in counts.items() if name != "other"}

    def _of_run(self, run: RunState, tp: TopicPartition) -> OffsetSet:
        return self._read.get(run.run_id, {}).get(tp, EMPTY)

    def _foreign_state(self, run_id: str) -> LetterState | None:
        """The state of letters of an unlisted run; None if it is a run of this job in this ledger."""
        if not run_id:
            return "other"
        parts = parse_run_id(run_id)
        if parts is None or parts.mark == self._mark:
            return None
        return "unknown" if is_of_lost(self._state, run_id) else "other"
