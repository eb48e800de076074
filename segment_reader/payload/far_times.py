"""Dates and timestamps outside of the years 1 to 9999, which Spark's and Delta's types do not have, as nulls.

Formats whose times are numbers (Avro) can hold such values: PostgreSQL's `infinity` is one. Their decoders read them
as they are, and here whole columns lose them, at any depth. Formats with texts decide text by text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError
from kseg.segment_reader.payload.json.formats import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from kseg.segment_reader.payload.texts import Rows, with_leaves_read

OutOfRangeTimes = Literal["fail", "set_null"]
"""What such times are: an error where the format says so, or nulls."""

TO_NULL: Final = ": out_of_range_times: set_null makes it null"
"""The end of the message of such an error."""


class FarTimesToNull:
    """See `segment_reader.payload.decoder.PayloadDecoder`. own: decodes the same payloads to rows with all times."""

    def __init__(self, own: PayloadDecoder) -> None:
        self._own = own

    @property
    def type(self) -> pa.DataType:
        return self._own.type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = self._own.decode(payloads, skip=skip)
        rows = decoded.rows
        near = with_leaves_read(rows, rows.type, np.arange(len(rows)), _near, lambda own, _: _has_times(own))
        return DecodedPayloads(near, decoded.status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._own.explain(payload, skip=skip)


@lru_cache(maxsize=1024)
def _has_times(kind: pa.DataType) -> bool:
    return _is_time(kind) or any(_has_times(kind.field(n).type) for n in range(kind.num_fields))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _near(times: pa.Array, _: pa.DataType, __: Rows, ___: str) -> pa.Array:
    days = pa.types.is_date(times.type)
    numbers = times.view(pa.int32() if days else pa.int64())
    first, last = (FIRST_DAY, LAST_DAY) if days else (FIRST_MICROS, LAST_MICROS)
    ends: Any = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= first and ends["max"] <= last):
        return times
    near = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(near, times, None)
