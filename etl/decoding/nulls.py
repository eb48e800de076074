"""Nulls in place of what cannot be decoded (`on_error: set_null`), each at its depth.

    a value of another type, too large, no UTF-8 …      null: a column, a field of a struct, an element of a list
    a document or a frame that is broken                all columns of the key or value are null

The compiled decoders say which payloads have an error. These alone are decoded once more, by the plain decoder with
nulls in place of values (`segment_reader.payload.plain.Nulling`). That is slow, and a run may have few of them
(`decode.max_nulled`): a task that alone exceeds the maximum fails before it decodes more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.decoding.payload import PayloadPlan
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.plain import Nulling

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
        self._nulling.places.clear()
        again = self._decoder.decode(records.take(pa.array(failing)))
        sound = again.status == Status.DECODED
        rows = with_rows(decoded.rows, failing[sound], again.rows, np.flatnonzero(sound))
        status = decoded.status.copy()
        status[failing[sound]] = Status.DECODED
        places = self._nulling.places
        for member in FORMATS[self._plan.format].around:
            places.pop(member, None)  # which is all of it
        columns = Counter({self._column(place): count for place, count in places.items()})
        if broken := int((~sound).sum()):
            columns[WHOLE] += broken
        return DecodedPayloads(rows, status), columns

    def _column(self, place: str) -> str:
        """A place within the payload as one within the rows."""
        around = FORMATS[self._plan.format].around
        if self._plan.envelope == "debezium":
            place = _without(place, *around)
            around = ("after", "before")
        place = _without(place, *around)
        first = place.partition(".")[0].partition("[")[0]
        place = self._names.get(first, first) + place[len(first) :]
        own = self._plan.column if not self._plan.into_columns else ""
        return ".".join(filter(None, (own, place))) or self._plan.column


def with_rows(
    rows: pa.Array, places: npt.NDArray[np.int64], others: pa.Array, which: npt.NDArray[np.int64]
) -> pa.Array:
    """The rows with some of the others in their places: the row `which[n]` at `places[n]`.

    Raises TooLargeForOneBatch: they are more than 2 GiB, or 2^31 elements, of one column.
    """
    order = np.arange(len(rows))
    order[places] = len(rows) + which
    try:
        return pa.concat_arrays([rows, others]).take(pa.array(order))
    except pa.ArrowInvalid:  # offsets of 32 bits do not reach so far
        raise TooLargeForOneBatch(len(rows)) from None


def _without(place: str, *steps: str) -> str:
    for step in steps:
        if place == step or place.startswith((f"{step}.", f"{step}[")):
            return place[len(step) :].removeprefix(".")
    return place
