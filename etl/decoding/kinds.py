"""Kinds of records with separate columns: a batch has rows of all kinds, and each table has rows of one kind.

A batch has one column for each pair of name and type in any kind: `id (int64)` of one kind, `id (string)` of another.
Kinds with the same pair share the column, and rows are null in columns that their kind lacks. These names cannot be
names of table columns, which must not contain " ("; each table gets its kind's columns with their plain names.

    payload ──► its schema ──► the record's name in the schema ──► kind ──► the kind's reader's schema
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
    """The records of one table. Picklable.

    records: the records' names in their schemas; `*`: all that no other kind names. reader: the text of the reader's
    schema; None if no schema of these records is known yet.
    """

    records: tuple[str, ...]
    reader: str | None


def kind_of(record: str | None, kinds: Sequence[Sequence[str]]) -> int | None:
    """The number of a record's kind, by its name in the schema; None if there is none. kinds: `Kind.records`."""
    named = (number for number, records in enumerate(kinds) if record is not None and record in records)
    others = (number for number, records in enumerate(kinds) if OTHERS in records)
    return next(named, next(others, None))


def column_name(name: str, kind: pa.DataType) -> str:
    """The name of a column with this name and type in batches of several kinds."""
    return f"{name}{_OPENS}{kind})"


def is_of_kinds(column: str) -> bool:
    """Whether this is a column's name in batches of several kinds, which no table column can have."""
    return _OPENS in column


def plain_name(column: str) -> str:
    """The table column's name for a column of a batch; other names are returned unchanged."""
    return column.partition(_OPENS)[0]


def columns_named(columns: Iterable[str], name: str) -> list[str]:
    """The batch's columns with this name in tables: one, or one for each type if there are several kinds."""
    return [column for column in columns if plain_name(column) == name]


@dataclass(frozen=True)
class KindColumns:
    """types: each kind's row type; None if it has no columns yet. rename: new names of fields. whole: the column's name
    for a value that is not a record."""

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
        """The row type for all kinds: a struct with each column once."""
        made: dict[str, pa.DataType] = {}
        for of_kind in self.fields:
            made |= {column_name(field.name, field.type): field.type for field in of_kind}
        return pa.struct([pa.field(name, kind) for name, kind in made.items()])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all kinds' fields, before they are renamed."""
        return frozenset(name for of_kind in self._written for name, _ in of_kind)

    def landed(self, kind: int) -> dict[str, str]:
        """The columns of a kind's table, and their names in batches of all kinds."""
        return {field.name: column_name(field.name, field.type) for field in self.fields[kind]}

    def decoder(self, kind: int, own: PayloadDecoder) -> PayloadDecoder:
        """A decoder of this kind's payloads, whose columns have their names in batches of all kinds."""
        columns = {
            name: pa.field(column_name(field.name, field.type), field.type)
            for (name, _), field in zip(self._written[kind], self.fields[kind], strict=True)
        }
        return _KindDecoder(own, columns, self.type)

    @cached_property
    def _written(self) -> tuple[tuple[tuple[str, pa.DataType], ...], ...]:
        """Names and types of each kind's fields in its reader's schema."""
        return tuple(() if kind is None else tuple(self._of(kind)) for kind in self.types)

    def _of(self, kind: pa.DataType) -> Iterable[tuple[str, pa.DataType]]:
        if not pa.types.is_struct(kind):
            return [(self.whole, kind)]
        return [(child.name, child.type) for child in kind]


@dataclass(frozen=True)
class RecordColumns:
    """by_record: by record name, the columns of its table, with their names in batches. of_kinds: whether each kind has
    separate columns; then routes are named after records."""

    by_record: Mapping[str, Mapping[str, str]]
    of_kinds: bool = False

    def of(self, records: Iterable[str]) -> dict[str, str]:
        """The columns of all of these records."""
        found: dict[str, str] = {}
        for record in records:
            found |= self.by_record.get(record, {})
        return found

    def beside(self, other: RecordColumns) -> RecordColumns:
        """The columns of two topics. Raises ConfigurationError if a table's column would have two types."""
        made = {record: dict(columns) for record, columns in self.by_record.items()}
        for record, columns in other.by_record.items():
            mine = made.setdefault(record, {})
            for name, column in columns.items():
                if (known := mine.setdefault(name, column)) != column:
                    message = f"topics differ in a column of records {record}: {known}, {column}"
                    raise ConfigurationError.of("decode", message, "land one of the topics by a job of its own")
        return RecordColumns(made, self.of_kinds and other.of_kinds)


class _KindDecoder:
    """See `PayloadDecoder`. Columns that rows lack are null. columns: names in batches of all kinds, by field."""

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
    """See `PayloadDecoder`. For payloads without a table: rows without a value, so that routing can report them."""

    type = pa.struct([])

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        nulls = np.asarray(payloads.is_null())
        statuses = np.where(nulls, Status.NULL, Status.DECODED).astype(np.uint8)
        return DecodedPayloads(pa.nulls(len(payloads), self.type), statuses)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        raise TypeError("none of its payloads fails")
