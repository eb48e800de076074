"""Nulls in place of what cannot be decoded (`on_error: set_null`), each at its depth.

    a value of another type, too large, no UTF-8 …      null: a column, a field of a struct, an element of a list
    a document or a frame that is broken                all columns of the key or value are null

The compiled decoders say which payloads have an error. These alone are decoded once more, by the plain decoder with
nulls in place of values (`segment_reader.payload.plain.Nulling`). That is slow, and a run may have few of them
(`decode.max_nulled`): a task that alone exceeds the maximum fails before it decodes more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.etl.decoding.change_states import OF_ROW, Event, Judged, is_declared, state_of
from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.decoding.payload import PayloadPlan
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status, concatenated, with_rows
from kseg.segment_reader.payload.plain import Nulling
from kseg.segment_reader.payload.rescue import RESCUED

WHOLE: Final = "*"
"""In place of a column: all columns of a key or value."""


class FieldNulls:
    """Decodes the payloads of one plan that the plan's own decoder rejects. Not picklable."""

    def __init__(self, plan: PayloadPlan) -> None:
        self._plan = plan
        self._nulling = Nulling()
        self._decoder = replace(plan, engine=self._nulling)
        self._names = dict(plan.rename)

    def of(
        self, records: pa.RecordBatch, decoded: DecodedPayloads, wanted: npt.NDArray[np.bool_]
    ) -> tuple[DecodedPayloads, Counter[str]]:
        """The rows of all records, and the number of records with nulls in each column.

        wanted: which of the rejected payloads are decoded once more. One whose structure is broken keeps its status,
        and its row of nulls.

        Raises TooLargeForOneBatch: the rows of all records do not fit into one array.
        """
        failing = np.flatnonzero(wanted)
        if self._plan.judges_states:
            again, columns = self._events(records, failing, decoded.rejected if isinstance(decoded, Judged) else {})
        else:
            again, columns = self._again(records, failing)
        sound = again.status == Status.DECODED
        rows = with_rows(decoded.rows, failing[sound], again.rows, np.flatnonzero(sound))
        status = decoded.status.copy()
        status[failing[sound]] = Status.DECODED
        if broken := int((~sound).sum()):
            columns[self._whole] += broken
        return DecodedPayloads(rows, status), columns

    def _again(self, records: pa.RecordBatch, failing: npt.NDArray[np.int64]) -> tuple[DecodedPayloads, Counter[str]]:
        self._nulling.places.clear()
        again = self._decoder.decode(records.take(pa.array(failing)))
        places = self._nulling.places
        for member in FORMATS[self._plan.format].around:
            places.pop(member, None)  # which is all of it
        columns = Counter[str]()
        for place, count in places.items():
            columns[self._column(place)] += count
        return again, columns

    def _events(
        self, records: pa.RecordBatch, failing: npt.NDArray[np.int64], judged: Mapping[int, Event]
    ) -> tuple[DecodedPayloads, Counter[str]]:
        """The same of change events, whose nulls are those of their rows. judged: events that are decoded already."""
        columns = Counter[str]()
        events = [judged.get(row) or self._plan.states.event(records, row) for row in failing.tolist()]
        for event in events:
            columns.update({self._of_event(place) for place in event.places})
        rows = [event.row for event in events] or [pa.nulls(0, self._plan.type)]
        return DecodedPayloads(concatenated(rows), np.array([event.status for event in events], np.uint8)), columns

    @property
    def _whole(self) -> str:
        """The name of all of a key or value."""
        return WHOLE if self._plan.into_columns else self._plan.column

    def _of_event(self, place: str) -> str:
        """A place in an envelope as one in the rows."""
        from kseg.segment_reader.payload.debezium import CONNECTOR_TS, SOURCE_TS, envelope_columns

        state = state_of(place)
        if state is None:
            column = {"source": SOURCE_TS, "source.ts_ms": SOURCE_TS, "ts_ms": CONNECTOR_TS}
            return self._in_row(column.get(place, place if place in OF_ROW else RESCUED))
        if place == state:
            own = (*envelope_columns(self._plan.unavailable_values), RESCUED)
            columns = [field.name for field in self._plan.type if field.name not in own]
            return self._in_row(columns[0]) if len(columns) == 1 else self._whole
        inside = place.removeprefix(f"{state}.")
        rescued = self._plan.type.get_field_index(RESCUED) >= 0 and not is_declared(inside, self._plan.type)
        return self._in_row(RESCUED if rescued else inside)

    def _column(self, place: str) -> str:
        """A place within the payload as one within the rows."""
        for member in FORMATS[self._plan.format].around:
            if place.startswith((f"{member}.", f"{member}[")):
                place = place[len(member) :].removeprefix(".")
        return self._in_row(place)

    def _in_row(self, place: str) -> str:
        first = _first(place)
        place = self._names.get(first, first) + place[len(first) :]
        own = self._plan.column if not self._plan.into_columns else ""
        return ".".join(filter(None, (own, place))) or self._plan.column


def _first(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]
