"""Debezium's placeholder for a value that the connector does not have, wherever a column may hold it.

PostgreSQL logs no large value (TOAST) that an update leaves as it is, and Oracle no LOB. In place of such a value
Debezium writes `__debezium_unavailable_value` in the form of the column's type:

    text, JSON, XML        the text; with `formats: json` in quotes
    bytes                  the text's bytes; in a column of text their base64 or hex (`binary.handling.mode`)
    text[], bytea[]        a list of that alone
    uuid[]                 a list of one UUID, made from the bytes (RFC 9562, version 3)
    integer[], numeric[]   a list with each byte as a number; of decimals as the unscaled number
    hstore                 a map from the text to itself, or that map as JSON text

A list of truth values is no placeholder here: it would be 28 times true, which may be data. A connector with another
placeholder (`unavailable.value.placeholder`) is not recognised.
Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-toasted-values, and
`io.debezium.connector.postgresql.UnchangedToastedPlaceholder`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Final, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PLACEHOLDER: Final = "__debezium_unavailable_value"
UNAVAILABLE: Final = "_kseg_unavailable"
"""The column with the names of a row's columns whose values the connector did not have; null where it had all."""

_RAW: Final = PLACEHOLDER.encode()
_BASE64: Final = base64.b64encode(_RAW)


@cache
def _texts() -> pa.Array:
    """The placeholder as text of each kind. Made at the first use: `pa.array` loads pandas."""
    forms = [
        PLACEHOLDER,
        json.dumps(PLACEHOLDER),
        json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
        _BASE64.decode(),
        _RAW.hex(),
        str(UUID(bytes=hashlib.md5(_RAW, usedforsecurity=False).digest(), version=3)),
    ]
    return pa.array(forms)


@cache
def _bytes() -> pa.Array:
    return pa.array([_RAW, _BASE64], pa.binary())


@dataclass(frozen=True)
class Unavailable:
    """The treatment of values that a connector did not have.

    how: `null` and `mark` put a null in their place, and `mark` names the columns in `_kseg_unavailable` as well;
    `text` keeps the placeholder in columns of text, and elsewhere it is an error; None keeps what is written. names:
    names of columns in the table by those in the payload, where they differ.
    """

    how: Literal["null", "text", "mark"] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> bool:
        return self.how == "mark"


def unavailable(column: pa.Array) -> npt.NDArray[np.bool_]:
    """A mask of the values of a column that are the placeholder."""
    kind = column.type
    if pa.types.is_string(kind):
        return _among(column, _texts())
    if pa.types.is_binary(kind):
        return _among(column, _bytes())
    if pa.types.is_list(kind):
        return _lists(column)
    if pa.types.is_map(kind):
        return _maps(column)
    return np.zeros(len(column), np.bool_)


def nulled(column: pa.Array, rows: npt.NDArray[np.bool_]) -> pa.Array:
    """The column with nulls in these rows."""
    return column.take(pa.array(np.arange(len(column)), mask=rows)) if rows.any() else column


def marks(found: Mapping[str, npt.NDArray[np.bool_]], n: int) -> pa.ListArray:
    """The column `_kseg_unavailable` of n rows, with names in alphabetical order, whatever the order of columns is.

    found: by column, the rows whose value was not there.
    """
    kind = pa.list_(pa.string())
    if not found:
        return pa.nulls(n, kind)
    in_order = sorted(found)
    by_row = np.stack([found[name] for name in in_order], axis=1)
    counts = by_row.sum(axis=1)
    names = pa.array(in_order, pa.string()).take(pa.array(np.nonzero(by_row)[1]))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names, type=kind, mask=pa.array(counts == 0))


def _among(column: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
    """A mask of the texts or bytes that are one of a few. Lengths are compared first, which costs the same for long
    texts."""
    found = np.asarray(pc.is_in(pc.binary_length(column), pc.binary_length(values)))
    rows = np.flatnonzero(found)
    if len(rows):
        found = found.copy()  # an array of Arrow's is read-only
        found[rows] = np.asarray(pc.is_in(column.take(pa.array(rows)), values))
    return found


def _lists(column: pa.ListArray) -> npt.NDArray[np.bool_]:
    numbers = _numbers(column.type.value_type)
    size = 1 if numbers is None else len(numbers)
    rows = _of_size(column, size)
    found = np.zeros(len(column), np.bool_)
    if len(rows):
        items = column.take(pa.array(rows)).flatten()
        if numbers is None:
            same = unavailable(items)
        else:
            expected = numbers.take(pa.array(np.tile(np.arange(size), len(rows))))
            same = np.asarray(pc.fill_null(pc.equal(items, expected), False))
        found[rows] = same.reshape(-1, size).all(axis=1)
    return found


def _maps(column: pa.MapArray) -> npt.NDArray[np.bool_]:
    rows = _of_size(column, 1)
    found = np.zeros(len(column), np.bool_)
    if len(rows):
        entries = column.take(pa.array(rows))
        found[rows] = unavailable(entries.keys) & unavailable(entries.items)
    return found


def _of_size(column: pa.Array, size: int) -> npt.NDArray[np.int64]:
    """The rows of a column of lists or maps with so many elements."""
    return np.flatnonzero((np.diff(np.asarray(column.offsets)) == size) & np.asarray(column.is_valid()))


@cache
def _numbers(kind: pa.DataType) -> pa.Array | None:
    """The placeholder's bytes as numbers of this type; None where they are none."""
    if pa.types.is_decimal(kind):
        try:
            return pa.array([Decimal(byte).scaleb(-kind.scale) for byte in _RAW], kind)
        except pa.ArrowInvalid:  # of too few digits
            return None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array(list(_RAW), pa.int32()).cast(kind)
    return pa.array(list(_RAW), pa.int32()).cast(kind) if pa.types.is_date32(kind) else None
