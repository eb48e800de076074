"""Values without a column type as JSON text, from their bytes: records where they begin again within themselves.

The form is that of rescued fields (docs/reference/types.md, "Rescued fields"): exact, a name for every field of the
writer's schema, a union of several types with the member that is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from kseg.segment_reader.payload.avro.resolution import resolve, smallest
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroMap,
    AvroRecord,
    Fixed,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
    is_null,
)
from kseg.segment_reader.payload.avro.types import joined, members, written_type
from kseg.segment_reader.payload.avro.value_reader import KeptBytes, ValueReader
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload, nullable, within
from kseg.segment_reader.payload.rescue import json_scalar

Form: TypeAlias = Callable[[ValueReader], str]
"""Reads a value, and gives its text."""


class DocumentTexts:
    """The texts of documents. Not picklable: it keeps what it has made for each schema."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[AvroRecord, Form]] = {}

    def of(self, data: bytes, schema: Schema) -> str:
        """Raises BadPayload: the bytes have the schema's structure, and a value is wrong."""
        return self._form(schema)(ValueReader(data, 0))

    def within(self, value: Any, step: str = "") -> Any:
        """A row of the reference decoder, with the text of each document that is in it. Raises BadPayload."""
        match value:
            case KeptBytes(data, schema):
                return nullable(self.of, data, schema)
            case dict():
                return {name: within(f".{name}", self.within, inner) for name, inner in value.items()}
            case list():
                return [within(f"[{number}]", self.within, inner) for number, inner in enumerate(value)]
            case (str() as key, inner):  # an entry of a map
                return key, self.within(inner)
        return value

    def _form(self, schema: Schema) -> Form:
        match schema:
            case AvroRecord():
                return self._record(schema)
            case AvroArray():
                item, smallest_item = self._form(schema.items), smallest(schema.items)
                return lambda reader: f"[{','.join(_items(reader, item, smallest_item))}]"
            case AvroMap():
                value, smallest_value = self._form(schema.values), 1 + smallest(schema.values)
                return lambda reader: _object(reader, value, smallest_value)
            case Union():
                forms = self._branches(schema)
                return lambda reader: forms[reader.branch(len(forms))](reader)
            case AvroEnum(symbols=symbols):
                texts = [_quoted(symbol) for symbol in symbols]
                return lambda reader: texts[_symbol(reader, len(texts))]
        return _scalar(schema)

    def _record(self, record: AvroRecord) -> Form:
        if id(record) not in self._records:
            names = [_quoted(field.name) for field in record.fields]
            forms: list[Form] = []

            def form(reader: ValueReader) -> str:
                parts = (
                    f"{name}:{within(f'.{field.name}', each, reader)}"
                    for name, field, each in zip(names, record.fields, forms, strict=True)
                )
                return f"{{{','.join(parts)}}}"

            self._records[id(record)] = record, form
            forms += [self._form(field.schema) for field in record.fields]
        return self._records[id(record)][1]

    def _branches(self, union: Union) -> list[Form]:
        """The value of a union's column: one type alone as it is, of several the member."""
        several = len(members(union)) > 1 and joined(members(union)) is None
        forms: list[Form] = []
        number = 0
        for branch in union.branches:
            own = self._form(branch)
            if several and not is_null(branch):
                forms.append(_member(number, own))
                number += 1
            else:
                forms.append(own)
        return forms


def _member(number: int, form: Form) -> Form:
    return lambda reader: f'{{"member{number}":{form(reader)}}}'


def _items(reader: ValueReader, item: Form, minimum: int) -> list[str]:
    return [within(f"[{number}]", item, reader) for number in reader.blocks(minimum)]


def _object(reader: ValueReader, value: Form, minimum: int) -> str:
    entries: list[tuple[str, str]] = []
    for _ in reader.blocks(minimum):
        key = reader.text()
        entries.append((key, within(f'["{key}"]', value, reader)))
    if len({key for key, _ in entries}) < len(entries):
        raise BadPayload(Status.DUPLICATE_KEY, "a map with the same key twice")
    return f"{{{','.join(f'{_quoted(key)}:{text}' for key, text in entries)}}}"


def _symbol(reader: ValueReader, count: int) -> int:
    number = reader.long()
    if not 0 <= number < count:
        raise BadPayload(Status.MALFORMED, f"symbol {number} of an enum of {count}")
    return number


def _scalar(schema: Primitive | Fixed) -> Form:
    if isinstance(schema, Primitive) and schema.kind is PrimitiveKind.NULL:
        return lambda reader: "null"
    node, kind = resolve(schema, schema).node, written_type(schema)

    def form(reader: ValueReader) -> str:
        value = reader.read(node)
        return "null" if value is None else json_scalar(value, kind)  # None: see `plain.nullable`

    return form


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
