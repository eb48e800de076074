"""Debezium's ZonedTimestamp in Avro: an ISO 8601 text with a zone, whose column is an instant.

The decoders read the text (`Logical.ZONED_TIMESTAMP` is a string to them), and here whole columns of texts become
instants, at any depth. Texts of the usual form are converted by Arrow, all others by the rules of JSON's timestamps.
Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-temporal-types
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status
from kseg.segment_reader.payload.far_times import OutOfRangeTimes
from kseg.segment_reader.payload.json.document import JsonToken
from kseg.segment_reader.payload.json.formats import FIRST_MICROS, LAST_MICROS
from kseg.segment_reader.payload.json.numbers import Unfit
from kseg.segment_reader.payload.json.reference import scalar
from kseg.segment_reader.payload.json.shape import JsonOptions, Shape, shape_of
from kseg.segment_reader.payload.plain import Engine, Nulling
from kseg.segment_reader.payload.texts import Rows, with_texts_read

_INSTANT: Final = pa.timestamp("us", tz="UTC")
#: What Arrow and JSON's rules read alike, but for times beyond the years 1 to 9999 of UTC: zones are up to 18:00 there.
_USUAL: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-7]):[0-9]{2})$"
)
_INSTANTS: Final = pa.struct([pa.field("at", _INSTANT)])
Nanoseconds = Literal["fail", "truncate"]
"""Digits below a microsecond are an error, or left out."""

_SHAPES: Final = {
    (how, far): shape_of(_INSTANTS, JsonOptions(nanoseconds=how, out_of_range_times=far)).by_name["at"]
    for how in get_args(Nanoseconds)
    for far in get_args(OutOfRangeTimes)
}

Found = Callable[[int, str, Unfit], None]
"""Called with the row, the place and the reason of each text that is no timestamp."""


class ZonedDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. own: decodes the same payloads to rows in which instants are
    texts. type: the rows' type. nanoseconds: what digits below a microsecond are. far: what times are outside of the
    years 1 to 9999."""

    def __init__(
        self,
        own: PayloadDecoder,
        type: pa.DataType,
        engine: Engine,
        nanoseconds: Nanoseconds = "fail",
        far: OutOfRangeTimes = "fail",
    ) -> None:
        self._own, self._type, self._shape = own, type, _SHAPES[nanoseconds, far]
        self._nulling = engine if isinstance(engine, Nulling) else None

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = self._own.decode(payloads, skip=skip)
        status = decoded.status.copy()

        nulls: dict[tuple[int, str], Unfit] = {}

        def found(row: int, place: str, reason: Unfit) -> None:
            if self._nulling is not None:
                nulls.setdefault((row, place), reason)
            elif status[row] == Status.DECODED:
                status[row] = reason.status

        rows = self._converted(decoded.rows, np.arange(len(status)), found)
        if self._nulling is not None:
            for (_, place), reason in nulls.items():
                self._nulling.found(place, 1, reason.status, reason.reason)
        bad = status != decoded.status
        if bad.any():
            rows = rows.take(pa.array(np.arange(len(rows)), mask=bad))
        return DecodedPayloads(rows, status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        decoded = self._own.decode(pa.array([payload], pa.binary()), skip=skip)
        if decoded.status[0] != Status.DECODED:
            return self._own.explain(payload, skip=skip)
        errors: list[PayloadError] = []

        def found(row: int, place: str, reason: Unfit) -> None:
            errors.append(PayloadError(reason.status, place, reason.reason))

        self._converted(decoded.rows, np.zeros(1, np.int64), found)
        return errors[0]

    def _converted(self, array: pa.Array, rows: Rows, found: Found) -> pa.Array:
        def read(texts: pa.StringArray, _: pa.DataType, its: Rows, place: str) -> pa.Array:
            return _instants(texts, its, place, found, self._shape)

        return with_texts_read(array, self._type, rows, read)


def _instants(texts: pa.StringArray, rows: Rows, place: str, found: Found, shape: Shape) -> pa.Array:
    usual = pc.fill_null(pc.match_substring_regex(texts, _USUAL), True)
    if pc.all(usual).as_py() is not False:
        try:
            instants = texts.cast(_INSTANT)
        except pa.ArrowInvalid:
            pass  # no day of the calendar, for instance
        else:
            if _in_range(instants):
                return instants
    micros: list[int | None] = []
    for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
        try:
            micros.append(None if text is None else scalar(JsonToken.STRING, text, shape))
        except Unfit as reason:
            micros.append(None)
            found(row, place, reason)
    return pa.array(micros, pa.int64()).cast(_INSTANT)


def _in_range(instants: pa.TimestampArray) -> bool:
    """Whether all are within the years 1 to 9999."""
    ends = pc.min_max(instants.view(pa.int64()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    return first is None or (first >= FIRST_MICROS and last <= LAST_MICROS)
