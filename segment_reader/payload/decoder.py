"""The interface of all payload decoders: their signature, a payload's status, and the error of one payload.

A decoder never raises for a payload: each gets a status, and one that fails is a null row with an error that
names its class, the path within the payload and the cause. Rows are never misaligned: n payloads give n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.errors import TooLargeForOneBatch


class Status(IntEnum):
    """The outcome of decoding one payload. The numbers are fixed: tables of dead letters keep the names, kernels the
    numbers."""

    DECODED = 0
    NULL = 1  # no payload: a tombstone, or a record without a key
    TRUNCATED = 2  # it ends within a value
    TRAILING_BYTES = 3  # bytes follow its last value
    MALFORMED = 4  # no value of its format: JSON's grammar, a union's branch, a length below zero
    INVALID_UTF8 = 5
    WRONG_TYPE = 6  # a well-formed value of another type than the column's
    OUT_OF_RANGE = 7  # too large for the column's type
    INEXACT = 8  # the column's type would round it
    DUPLICATE_KEY = 9
    UNKNOWN_SYMBOL = 10
    TOO_DEEP = 11
    TOO_LARGE = 12
    BAD_FRAME = 13  # no frame of the registry's wire format
    UNKNOWN_SCHEMA = 14  # the registry does not know the schema's id
    MISSING_FIELD = 15  # neither written nor defaulted
    INCOMPATIBLE_SCHEMA = 16  # the writer's schema cannot be read with the reader's


@dataclass(frozen=True)
class PayloadError:
    """Why one payload has no row. `path` is the place within the payload: `items[2].price`, empty for the whole."""

    status: Status
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True)
class DecodedPayloads:
    """n payloads as rows.

    rows: n rows of the decoder's type; null where the status is not DECODED.
    status: n values of Status, uint8.
    """

    rows: pa.Array
    status: npt.NDArray[np.uint8]


class PayloadDecoder(Protocol):
    """Decodes payloads of one schema. A format's two implementations agree on each status and each value."""

    @property
    def type(self) -> pa.DataType:
        """The rows' type: a struct of nullable fields for records, else the value's own."""

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        """Decode each payload from its byte `skip` on (a frame's header is before it).

        Raises TooLargeForOneBatch: the rows do not fit into one array; the plain decoders raise pyarrow's errors then.
        """

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        """The error of a payload whose status is none of DECODED and NULL: asked for failing payloads alone."""


def concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    """The rows of all parts. Raises TooLargeForOneBatch: they are more than 2 GiB, or 2^31 elements, of one column."""
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid:  # offsets of 32 bits do not reach so far
        raise TooLargeForOneBatch(sum(map(len, parts))) from None


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
