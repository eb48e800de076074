"""Which of the two states of a change event is judged: the one that becomes its row.

    op   c r u t m    `after`; nothing of `before` is in the row, but for fields in `_kseg_rescued`
         d            `before`; nothing of `after` is in the row, but for fields in `_kseg_rescued`

Beside a state, a row has `op`, `source.ts_ms` and `ts_ms`.

The decoders read both states, and reject an event for a value in either of them. What they reject is decoded once more,
one event at a time, by the plain decoder with nulls in place of such values: an event with no other nulls than in the
state that is not its row's is sound. That is slow, and events whose states differ so are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status, concatenated, with_rows
from kseg.segment_reader.payload.plain import OF_VALUES, Nulling
from kseg.segment_reader.payload.rescue import RESCUED

AFTER, BEFORE, OP = "after", "before", "op"
STATES: Final = (BEFORE, AFTER)
OF_ROW: Final = (OP, "source", "source.ts_ms", "ts_ms")
"""Places of the envelope that rows have columns of, beside those of a state."""
_OF_ENVELOPES: Final = (Status.MISSING_FIELD, Status.UNKNOWN_SYMBOL)
"""What is wrong with an envelope all of whose values are of its type, or null."""


@dataclass(frozen=True)
class Event:
    """One event, decoded with nulls.

    row: one row of the plan's type. places: in the envelope, of the nulls that the row has of values that cannot be
    decoded. If the status is not DECODED, the row is null and there are none.
    """

    row: pa.Array
    status: Status
    places: tuple[str, ...]


@dataclass(frozen=True)
class Judged(DecodedPayloads):
    """Payloads of change events, judged.

    rejected: the events that are rejected for their rows, by row. unjudged: the rows that were left out since enough
    are rejected; they have the status of the decoder.
    """

    rejected: Mapping[int, Event] = field(default_factory=dict)
    unjudged: tuple[int, ...] = ()


class Events(Protocol):
    """A plan by which events are decoded (`etl.decoding.payload.PayloadPlan`)."""

    def decode(self, records: pa.RecordBatch) -> DecodedPayloads: ...

    def explain(self, records: pa.RecordBatch, row: int, status: Status) -> PayloadError: ...


class ChangeStates:
    """Decodes events that a plan's own decoder rejects. Not picklable.

    plan: the same with this `nulling` as its engine. around: the members of a document that are around the envelope.
    """

    def __init__(self, plan: Events, nulling: Nulling, around: tuple[str, ...] = ()) -> None:
        self._plan, self._nulling, self._around = plan, nulling, around

    def judged(self, records: pa.RecordBatch, decoded: DecodedPayloads, enough: int | None = None) -> DecodedPayloads:
        """The rows of these records, and of the events that were rejected for what is not in their rows.

        enough: of events that are rejected for their rows: those behind them keep their status. None: all are judged.

        Raises TooLargeForOneBatch: the rows of all records do not fit into one array.
        """
        doubtful = np.flatnonzero(np.isin(decoded.status, [int(status) for status in OF_VALUES])).tolist()
        sound: dict[int, Event] = {}
        rejected: dict[int, Event] = {}
        for row in doubtful:
            if enough is not None and len(rejected) >= enough:
                break
            event = self.event(records, row)
            judged = sound if event.status == Status.DECODED and not event.places else rejected
            judged[row] = event
        unjudged = tuple(doubtful[len(sound) + len(rejected) :])
        if not sound:
            return Judged(decoded.rows, decoded.status, rejected, unjudged)
        status, places = decoded.status.copy(), np.array(list(sound))
        status[places] = Status.DECODED
        rows = concatenated([event.row for event in sound.values()])
        rows = with_rows(decoded.rows, places, rows, np.arange(len(rows)))
        return Judged(rows, status, rejected, unjudged)

    def event(self, records: pa.RecordBatch, row: int) -> Event:
        """The event of one of these records."""
        from kseg.segment_reader.payload.debezium import OP as OPERATION

        self._nulling.places.clear()
        self._nulling.errors = {}
        decoded = self._plan.decode(records.slice(row, 1))
        status = Status(int(decoded.status[0]))
        if status != Status.DECODED:
            return Event(decoded.rows, status, ())
        used = BEFORE if decoded.rows.field(OPERATION)[0].as_py() == "d" else AFTER
        places = (self._inside(place) for place, found in self._nulling.places.items() if found)
        kind = decoded.rows.type
        return Event(decoded.rows, status, tuple(place for place in places if _is_in_row(place, used, kind)))

    def explain(self, records: pa.RecordBatch, row: int) -> PayloadError | None:
        """Why the event has no row, or a row with nulls; None: for what the plan's own decoder says."""
        event = self.event(records, row)
        errors = {self._inside(place): error for place, error in self._nulling.errors.items()}
        if event.status == Status.DECODED:
            return next((errors[place] for place in event.places if place in errors), None)
        if event.status not in _OF_ENVELOPES:
            return None
        of_envelope = self._plan.explain(records, row, event.status)
        return errors.get(of_envelope.path, of_envelope if of_envelope.path in (OP, AFTER) else None)

    def _inside(self, place: str) -> str:
        """A place in the document as one in the envelope."""
        for member in self._around:
            place = place.removeprefix(f"{member}.")
        return place


def _is_in_row(place: str, used: str, kind: pa.StructType) -> bool:
    """Whether a place in an envelope is one in the row of its event. used: the row's state. kind: of the rows."""
    state = state_of(place)
    if state == used or place in OF_ROW:
        return True
    # Rescued fields are those of both states and of the envelope that the row has no column for.
    rescues = kind.get_field_index(RESCUED) >= 0
    return rescues and not (state is not None and is_declared(place.removeprefix(state).lstrip("."), kind))


def is_declared(place: str, kind: pa.DataType) -> bool:
    """Whether a place in a state has a column, or a field in one. kind: of the rows."""
    for name in filter(None, place.split(".")):
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_map(kind):
            return True
        at = kind.get_field_index(name.partition("[")[0]) if pa.types.is_struct(kind) else -1
        if at < 0:
            return False
        kind = kind.field(at).type
    return True


def state_of(place: str) -> str | None:
    """The state that a place in an envelope is in, or None."""
    return next((state for state in STATES if place == state or place.startswith(f"{state}.")), None)
