"""How one column's rows fit the column that a table has; and to which wider type the table's can be changed.

    the table's           may become (Delta protocol, "Type Widening", "Supported type changes")
    --------------------  ----------------------------------------------------------------------------------------
    tinyint … int         a longer integer; double; a decimal with 10 digits or more before the point
    bigint                a decimal with 20 digits or more before the point
    float                 double
    decimal               one with as many digits or more, before the point and behind it
    date                  timestamp_ntz

Old files are not rewritten: readers convert what they hold. So a bigint, which a double cannot hold exactly, becomes
none, and nothing becomes a string.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from kseg.etl.rows.types import is_list
from kseg.segment_reader.payload.ddl import quoted, type_text

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())

_DIGITS: Final = {pa.int8(): 10, pa.int16(): 10, pa.int32(): 10, pa.int64(): 20}
"""Before a decimal's point, so that readers convert what Parquet holds: numbers of 32 or of 64 bits."""


@dataclass(frozen=True, slots=True)
class Widening:
    """A change of one type in a table. path: as ALTER TABLE names it (`items`, `element`, `price`)."""

    path: tuple[str, ...]
    before: pa.DataType
    after: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(map(quoted, self.path))

    def __str__(self) -> str:
        return f"{self.name} from {type_text(self.before)} to {type_text(self.after)}"


@dataclass(frozen=True, slots=True)
class Fit:
    """How a column of the rows is written to the table's.

    written: the type with which the rows are written. whole: the table's column, with fields and types that it does
    not have yet. grows: structs in it get fields. widened: its types that become wider.
    """

    written: pa.DataType
    whole: pa.DataType
    grows: bool = False
    widened: tuple[Widening, ...] = ()


def fit(rows: pa.DataType, table: pa.DataType, *path: str) -> Fit | None:
    """How rows of one landed type fit a table's; None: not at all. path: the column's."""
    types = pa.types
    if is_list(rows) and is_list(table):
        inner = fit(rows.value_type, table.value_type, *path, "element")
        return inner and replace(inner, written=_list(inner.written), whole=_list(inner.whole))
    if types.is_map(rows) and types.is_map(table):
        return _map(rows, table, path)
    if types.is_struct(rows) and types.is_struct(table):
        return _struct(rows, table, path)
    if rows == table or holds(table, rows):
        return Fit(table, table)
    if can_widen(table, rows):
        return Fit(rows, rows, widened=(Widening(path, table, rows),))
    return None


def can_write(rows: pa.DataType, table: pa.DataType) -> bool:
    """Whether every value of a landed type has its place in a table's type as it is."""
    found = fit(rows, table)
    return found is not None and not found.grows and not found.widened


def with_nulls_of(whole: pa.DataType, table: pa.DataType) -> pa.DataType:
    """`Fit.whole` with the nullability that fields, elements and values have in the table's type, which it extends."""
    types = pa.types
    if is_list(whole):
        items = with_nulls_of(whole.value_type, table.value_type)
        return pa.list_(pa.field("element", items, nullable=table.value_field.nullable))
    if types.is_map(whole):
        keys, items = with_nulls_of(whole.key_type, table.key_type), with_nulls_of(whole.item_type, table.item_type)
        return pa.map_(keys, pa.field("value", items, nullable=table.item_field.nullable))
    if types.is_struct(whole):
        there = [
            pa.field(one.name, with_nulls_of(one.type, other.type), nullable=other.nullable)
            for one, other in zip(whole, table, strict=False)
        ]
        return pa.struct([*there, *list(whole)[len(there) :]])
    return whole


def holds(table: pa.DataType, rows: pa.DataType) -> bool:
    """Whether a column of a table takes all values of a narrower scalar type as they are."""
    if rows in INTEGERS and table in INTEGERS:
        return INTEGERS.index(rows) < INTEGERS.index(table)
    if pa.types.is_decimal(rows) and pa.types.is_decimal(table):
        return bool(rows.scale <= table.scale and rows.precision - rows.scale <= table.precision - table.scale)
    return bool(rows == pa.float32() and table == pa.float64())


def can_widen(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether a table's scalar type may be changed to this one, which it is not."""
    if before == after:
        return False
    if before in _DIGITS and pa.types.is_decimal(after):
        return bool(after.precision - after.scale >= _DIGITS[before])
    if before in INTEGERS[:3] and after == pa.float64():
        return True
    if before == pa.date32():
        return bool(after == pa.timestamp("us"))
    return holds(after, before)


def _list(items: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", items))


def _map(rows: pa.DataType, table: pa.DataType, path: tuple[str, ...]) -> Fit | None:
    keys, items = fit(rows.key_type, table.key_type, *path, "key"), fit(rows.item_type, table.item_type, *path, "value")
    if keys is None or items is None or keys.grows:
        return None
    return Fit(
        pa.map_(keys.written, items.written),
        pa.map_(keys.whole, items.whole),
        items.grows,
        (*keys.widened, *items.widened),
    )


def _struct(rows: pa.DataType, table: pa.DataType, path: tuple[str, ...]) -> Fit | None:
    """Fields are the same in their order; one of the two may have nullable ones behind those of the other."""
    shared = min(rows.num_fields, table.num_fields)
    mine, theirs = list(rows), list(table)
    if not all(field.nullable for field in (*mine[shared:], *theirs[shared:])):
        return None
    written: list[pa.Field] = []
    whole: list[pa.Field] = []
    widened: list[Widening] = []
    grows = rows.num_fields > shared
    for one, other in zip(mine[:shared], theirs[:shared], strict=True):
        inner = fit(one.type, other.type, *path, other.name) if one.name == other.name else None
        if inner is None:
            return None
        written.append(pa.field(one.name, inner.written))
        whole.append(pa.field(other.name, inner.whole))
        grows = grows or inner.grows
        widened += inner.widened
    more = [pa.field(field.name, field.type) for field in mine[shared:]]
    return Fit(pa.struct([*written, *more]), pa.struct([*whole, *more, *theirs[shared:]]), grows, tuple(widened))
