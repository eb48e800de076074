"""Kinds of records with columns of their own: rows of all kinds in one batch, each table's rows of one kind.

A batch has a column for each name and type together that any kind has: `id (int64)` of one, `id (string)` of another.
Kinds that agree share the column, and a row is null in those that its kind lacks. No table's column may have " (" in
its name, so these names are no table's; each table gets those of its own kind back under their plain names.

    payload ──► its schema ──► what that calls its records ──► kind ──► the kind's reader's schema
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status

OTHERS: Final = "*"
"""Records that no other kind names, and those without a name."""

_OPENS: Final = " ("


@dataclass(frozen=True)
class Kind:
    """Records of one table. Picklable.

    records: what their schemas call them, `*` for all that no other kind names. reader: the text of the rows' schema;
    None where no schema of such a record is known yet.
    """

    records: tuple[str, ...]
    reader: str | None


def kind_of(record: str | None, kinds: Sequence[Sequence[str]]) -> int | None:
    """The number of a record's kind by what its schema calls it; None where there is none. kinds: `Kind.records`."""
    named = (number for number, records in enumerate(kinds) if record is not None and record in records)
    others = (number for number, records in enumerate(kinds) if OTHERS in records)
    return next(named, next(others, None))


def column_name(name: str, kind: pa.DataType) -> str:
    """What rows of several kinds call a column of this name and type."""
    return f"{name}{_OPENS}{kind})"


def is_of_kinds(column: str) -> bool:
    """Whether it is the name of a column of rows of several kinds, and so no table's."""
    return _OPENS in column


def plain_name(column: str) -> str:
    """What tables call a column of the rows; any other name is its own."""
    return column.partition(_OPENS)[0]


def columns_named(columns: Iterable[str], name: str) -> list[str]:
    """Those of the rows' columns that tables call so: one, or of rows of several kinds one for each type."""
    return [column for column in columns if plain_name(column) == name]


@dataclass(frozen=True)
class KindColumns:
    """types: of each kind's rows, None where it has no columns yet. rename: fields to other names. whole: what a value
    that is no record is called."""

    types: tuple[pa.DataType | None, ...]
    rename: Mapping[str, str]
    whole: str

    @cached_property
    def fields(self) -> tuple[tuple[pa.Field, ...], ...]:
        """The columns of each kind as its table has them."""
        return tuple(
            tuple(pa.field(self.rename.get(name, name), kind) for name, kind in of_kind) for of_kind in self._written
        )

    @cached_property
    def type(self) -> pa.StructType:
        """Of the rows of all kinds: a struct with each column once."""
        made: dict[str, pa.DataType] = {}
        for of_kind in self.fields:
            made |= {column_name(field.name, field.type): field.type for field in of_kind}
        return pa.struct([pa.field(name, kind) for name, kind in made.items()])

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all kinds' fields, before they are renamed."""
        return frozenset(name for of_kind in self._written for name, _ in of_kind)

    def landed(self, kind: int) -> dict[str, str]:
        """Of a kind's table: its columns, and what rows of all kinds call them."""
        return {field.name: column_name(field.name, field.type) for field in self.fields[kind]}

    def decoder(self, kind: int, own: PayloadDecoder) -> PayloadDecoder:
        """A decoder of this kind's payloads whose rows have the columns' names as rows of all kinds do."""
        columns = {
            name: pa.field(column_name(field.name, field.type), field.type)
            for (name, _), field in zip(self._written[kind], self.fields[kind], strict=True)
        }
        return _KindDecoder(own, columns, self.type)

    @cached_property
    def _written(self) -> tuple[tuple[tuple[str, pa.DataType], ...], ...]:
        """Names and types of each kind's fields as its reader's schema has them."""
        return tuple(() if kind is None else tuple(self._of(kind)) for kind in self.types)

    def _of(self, kind: pa.DataType) -> Iterable[tuple[str, pa.DataType]]:
        if not pa.types.is_struct(kind):
            return [(self.whole, kind)]
        return [(child.name, child.type) for child in kind]


@dataclass(frozen=True)
class RecordColumns:
    """by_record: of what schemas call their records, the columns of their tables by name, and what rows call them.
    of_kinds: whether each kind has columns of its own; its routes are the records then."""

    by_record: Mapping[str, Mapping[str, str]]
    of_kinds: bool = False

    def of(self, records: Iterable[str]) -> dict[str, str]:
        """Those of these records together."""
        found: dict[str, str] = {}
        for record in records:
            found |= self.by_record.get(record, {})
        return found

    def beside(self, other: RecordColumns) -> RecordColumns:
        """Those of two topics. Raises ConfigurationError where they give a column of one table two types."""
        made = {record: dict(columns) for record, columns in self.by_record.items()}
        for record, columns in other.by_record.items():
            mine = made.setdefault(record, {})
            for name, column in columns.items():
                if (known := mine.setdefault(name, column)) != column:
                    message = f"topics differ in a column of records {record}: {known}, {column}"
                    raise ConfigurationError.of("decode", message, "land one of the topics by a job of its own")
        return RecordColumns(made, self.of_kinds and other.of_kinds)


class _KindDecoder:
    """See `PayloadDecoder`. Rows may lack columns, which are null then. columns: of rows of all kinds, by field."""

    def __init__(self, own: PayloadDecoder, columns: Mapping[str, pa.Field], kind: pa.DataType) -> None:
        self._own, self._columns = own, columns
        self.type = kind

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = self._own.decode(payloads, skip=skip)
        rows = decoded.rows
        if pa.types.is_struct(rows.type) and not rows.type.num_fields:
            return DecodedPayloads(pa.nulls(len(rows), pa.struct([])), decoded.status)
        if pa.types.is_struct(rows.type):
            fields, children = [self._columns[child.name] for child in rows.type], rows.flatten()
        else:
            fields, children = list(self._columns.values()), [rows]
        nulls = rows.is_null() if rows.null_count else None
        return DecodedPayloads(pa.StructArray.from_arrays(children, fields=fields, mask=nulls), decoded.status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._own.explain(payload, skip=skip)


class OfNoKind:
    """See `PayloadDecoder`. Payloads that have no table: rows without a value, for whoever looks for their table."""

    type = pa.struct([])

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        nulls = np.asarray(payloads.is_null())
        statuses = np.where(nulls, Status.NULL, Status.DECODED).astype(np.uint8)
        return DecodedPayloads(pa.nulls(len(payloads), self.type), statuses)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        raise TypeError("none of its payloads fails")
