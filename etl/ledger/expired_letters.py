"""The ledger's record of dead letters that retention has deleted: their offsets stay accounted for.

The event is written before anything is deleted. So an interrupted deletion is repeated, and no redrive plans a record
whose dead letter is about to be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.events import Event
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.values import ByPartition, OffsetIntervals, TableState

Expired = Mapping[str, Mapping[TopicPartition, OffsetSet]]
"""Offsets of dead letters by the run that wrote them."""

NONE: Final[Mapping[TopicPartition, OffsetSet]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersExpired(Event):
    """Dead letters were older than their retention: they may be deleted from their table from this event on.

    runs: their offsets, by the run that wrote them. counts: their number by state. state: in a second event, the
    table's state after the deletion; otherwise None.
    """

    KIND = "dead_letters_expired"

    table: str
    runs: dict[str, ByPartition[OffsetIntervals]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    state: TableState | None = None


def with_expired(known: Expired, event: LettersExpired) -> dict[str, dict[TopicPartition, OffsetSet]]:
    """All expired letters after an event; the same event again changes nothing."""
    made = {run_id: dict(offsets) for run_id, offsets in known.items()}
    for run_id, offsets in event.runs.items():
        of_run = made.setdefault(run_id, {})
        for tp, more in offsets.items():
            of_run[tp] = of_run.get(tp, EMPTY).union(more)
    return made


def has_expired(known: Expired, run_id: str, tp: TopicPartition, offset: int) -> bool:
    """Whether this dead letter has expired."""
    return offset in known.get(run_id, NONE).get(tp, EMPTY)
