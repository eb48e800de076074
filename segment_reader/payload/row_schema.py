"""The reader's schema of a table whose writers' schemas change: a tree of columns, its text, and its Arrow type.

    the reader has    the writer has         merged
    no such field     a field                the writer's field, after all others
    a field           no such field          the reader's field
    a type            the same, or narrower  the reader's type
    JSON text         JSON text              JSON text, which only that fits: a text is written without quotes
    anything else                            IncompatibleSchemas, with both types

For formats without their own schema resolution: payloads are decoded with the writer's schema, then each row gets the
reader's columns (`aligned`). Fields are matched by number if they have one, otherwise by name.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.ddl import PRIMITIVES, parse_type, type_name
from kseg.segment_reader.payload.errors import IncompatibleSchemas, InvalidSchema, PayloadSchemaError

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WORDS = {kind: word for word, kind in reversed(PRIMITIVES.items())}


@dataclass(frozen=True, slots=True)
class RowField:
    """number: None if fields are matched by name.

    unwritten: only for a writer's field, for its rescued values: the JSON text of a value that is not written, like
    null; None: nulls are written, too.
    """

    name: str
    type: RowType
    number: int | None = None
    unwritten: str | None = dataclasses.field(default=None, compare=False)

    @property
    def key(self) -> int | str:
        """The key by which two fields are matched."""
        return self.name if self.number is None else self.number


@dataclass(frozen=True, slots=True)
class RowRecord:
    fields: tuple[RowField, ...]


@dataclass(frozen=True, slots=True)
class Array:
    items: RowType


@dataclass(frozen=True, slots=True)
class Map:
    keys: pa.DataType
    values: RowType


@dataclass(frozen=True, slots=True)
class JsonText:
    """A string whose text is JSON, as it was written: `"A-17"` with its quotes."""


@dataclass(frozen=True, slots=True)
class UnknownText:
    """A string of a stored schema from before JSON text had a type of its own: the first writer's type becomes its."""


RowType: TypeAlias = "pa.DataType | RowRecord | Array | Map | JsonText | UnknownText"


def from_arrow(kind: pa.DataType) -> RowType:
    """The type of rows whose fields have no numbers and whose strings are no JSON text."""
    if pa.types.is_struct(kind):
        return RowRecord(tuple(RowField(child.name, from_arrow(child.type)) for child in kind))
    if pa.types.is_map(kind):
        return Map(kind.key_type, from_arrow(kind.item_type))
    return Array(from_arrow(kind.value_type)) if pa.types.is_list(kind) else kind


def to_arrow(kind: RowType) -> pa.DataType:
    match kind:
        case RowRecord():
            return pa.struct([pa.field(field.name, to_arrow(field.type)) for field in kind.fields])
        case Array():
            return pa.list_(to_arrow(kind.items))
        case Map():
            return pa.map_(kind.keys, to_arrow(kind.values))
        case JsonText() | UnknownText():
            return pa.string()
    return kind


# --- as text


def schema_text(schema: RowRecord) -> str:
    """The schema as JSON, in which scalar types have the names of Spark's DDL; but strings are `text` or `json`.

    Older texts have `string` for both.
    """
    return json.dumps(_document(schema), ensure_ascii=False, separators=(",", ":"))


def parse_schema(text: str) -> RowRecord:
    """Parse the text of `schema_text`. Raises InvalidSchema."""
    try:
        schema = _parsed(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError, PayloadSchemaError):
        schema = None
    if not isinstance(schema, RowRecord):
        raise InvalidSchema("", "the table's columns are those of another format")
    return schema


def _document(kind: RowType) -> Any:
    match kind:
        case RowRecord():
            return {"columns": [_field(field) for field in kind.fields]}
        case Array():
            return {"array": _document(kind.items)}
        case Map():
            return {"map": [_word(kind.keys), _document(kind.values)]}
        case JsonText():
            return "json"
        case UnknownText():
            return "string"
    return "text" if pa.types.is_string(kind) else _word(kind)


def _field(field: RowField) -> dict[str, Any]:
    number = {} if field.number is None else {"number": field.number}
    return {"name": field.name, "type": _document(field.type), **number}


def _word(kind: pa.DataType) -> str:
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _WORDS[kind]


def _parsed(document: Any) -> RowType:
    match document:
        case {"columns": [*fields]}:
            return RowRecord(
                tuple(RowField(each["name"], _parsed(each["type"]), each.get("number")) for each in fields)
            )
        case {"array": items}:
            return Array(_parsed(items))
        case {"map": [str(keys), values]}:
            return Map(parse_type(keys), _parsed(values))
        case "json":
            return JsonText()
        case "string":
            return UnknownText()
        case "text":
            return pa.string()
        case str():
            return parse_type(document)
    raise InvalidSchema("", "no type")


# --- merging


def merged(reader: RowRecord, writer: RowRecord, *, add_fields: bool = True, widen: bool = False) -> RowRecord:
    """The reader's columns with the writer's additional ones; the same object if there are none.

    add_fields: False: fields that the reader lacks are left out. widen: the reader's types become the writer's if these
    are wider.

    Raises:
        IncompatibleSchemas: a column would have to change its type; both types are in the message.
    """
    made = _Merge(add_fields, widen).record(reader, writer, "")
    return reader if made == reader else made


@dataclass(frozen=True)
class _Merge:
    add_fields: bool
    widen: bool

    def record(self, reader: RowRecord, writer: RowRecord, place: str) -> RowRecord:
        fields = list(reader.fields)
        numbers = {field.key: number for number, field in enumerate(fields)}
        names = {field.name for field in fields}
        for field in writer.fields:
            below = f"{place}.{field.name}" if place else field.name
            number = numbers.get(field.key)
            if number is not None:
                before = fields[number]
                fields[number] = RowField(before.name, self.of(before.type, field.type, below), before.number)
            elif self.add_fields:
                if field.name in names:
                    raise IncompatibleSchemas(below, below, "the column of this name is a field of another number")
                fields.append(field)
        return RowRecord(tuple(fields))

    def of(self, reader: RowType, writer: RowType, place: str) -> RowType:
        match reader, writer:
            case RowRecord(), RowRecord():
                return self.record(reader, writer, place)
            case Array(), Array():
                return Array(self.of(reader.items, writer.items, f"{place}[]"))
            case Map(), Map() if reader.keys == writer.keys:
                return Map(reader.keys, self.of(reader.values, writer.values, f"{place}[]"))
            case JsonText(), JsonText():
                return reader
            case UnknownText(), _ if _is_text(writer):
                return writer
            case _, UnknownText() if _is_text(reader):
                return reader
            case pa.DataType(), pa.DataType() if _holds(reader, writer):
                return reader
            case pa.DataType(), pa.DataType() if self.widen and _holds(writer, reader):
                return writer
        reason = f"{_described(writer)} does not fit the column, which is {_described(reader)}"
        raise IncompatibleSchemas(place, place, reason)


def _is_text(kind: RowType) -> bool:
    return isinstance(kind, JsonText | UnknownText) or kind == pa.string()


def _described(kind: RowType) -> str:
    return "JSON text" if isinstance(kind, JsonText) else type_name(to_arrow(kind))


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a column can hold all values of another type."""
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS.index(narrow) <= _INTEGERS.index(wide)
    return bool(wide == narrow or (wide == pa.float64() and narrow == pa.float32()))


def narrowed(writer: RowRecord, reader: RowRecord) -> RowRecord:
    """The writer's columns without those that the reader lacks. Both must be compatible (see `merged`)."""
    known = {field.key: field.type for field in reader.fields}
    return RowRecord(
        tuple(
            dataclasses.replace(field, type=_narrowed(field.type, known[field.key]))
            for field in writer.fields
            if field.key in known
        )
    )


def _narrowed(writer: RowType, reader: RowType) -> RowType:
    match writer, reader:
        case RowRecord(), RowRecord():
            return narrowed(writer, reader)
        case Array(), Array():
            return Array(_narrowed(writer.items, reader.items))
        case Map(), Map():
            return Map(writer.keys, _narrowed(writer.values, reader.values))
    return writer


# --- rows


def aligned(rows: pa.Array, writer: RowType, reader: RowType) -> pa.Array:
    """Convert rows of the writer's type to the reader's type.

    Fields that the writer lacks are null; fields that the reader lacks are dropped. The number of rows does not change.
    The types must be compatible (see `merged`).
    """
    if writer == reader:
        return rows
    rows = rows.take(pa.array(np.arange(len(rows)))) if rows.offset else rows
    match writer, reader:
        case RowRecord(), RowRecord():
            parts = zip(writer.fields, rows.flatten(), strict=True)
            columns = _columns({field.key: (field.type, part) for field, part in parts}, reader, len(rows))
            return pa.StructArray.from_arrays(columns, fields=list(to_arrow(reader)), mask=rows.is_null())
        case Array(), Array():
            items = aligned(rows.values, writer.items, reader.items)
            return pa.ListArray.from_arrays(rows.offsets, items, to_arrow(reader), mask=rows.is_null())
        case Map(), Map():
            values = aligned(rows.items, writer.values, reader.values)
            return pa.MapArray.from_arrays(rows.offsets, rows.keys, values, to_arrow(reader), mask=rows.is_null())
    return rows.cast(to_arrow(reader))


def _columns(parts: Mapping[int | str, tuple[RowType, pa.Array]], reader: RowRecord, n: int) -> list[pa.Array]:
    return [
        aligned(parts[field.key][1], parts[field.key][0], field.type)
        if field.key in parts
        else pa.nulls(n, to_arrow(field.type))
        for field in reader.fields
    ]
