"""JSON Schema, as Confluent's JsonSchemaSerializer registers it -> the type that its documents are read by.

    object with properties      struct                  $ref, allOf             what they lead to, joined
    object without              map<string, …>          oneOf, anyOf            null and one other: that one
    array                       array<…>                any type, or several    the value as text, as it is written
    string, integer, number     string, bigint, double; with `format`, `connect.type` and Connect's logical names more

A type that contains itself is text at its second occurrence, so no schema is too deep for columns.
Source: https://json-schema.org/draft/2020-12 and drafts 4 to 7; `io.confluent.connect.json.JsonSchemaData`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag

import pyarrow as pa

from kseg.segment_reader.payload.connect_schema import DEEPEST, ConnectType, read_connect_schema
from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.errors import InvalidSchema, PayloadSchemaError, UnsupportedSchema
from kseg.segment_reader.payload.json.formats import ISO, JSON_TEXT
from kseg.segment_reader.payload.row_schema import Array, Field, JsonText, Map, Record, RowType

_CONNECT = ("org.apache.kafka.connect.data.", "io.debezium.time.")
_CHOICES = ("oneOf", "anyOf")
_SIMPLE = {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
_HINTS = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_MOST_FIELDS = 100_000
_MOST_PARTS = 100_000
"""Of `allOf`, in the whole schema: one that names the same schema twice at each level doubles them with each."""


@dataclass(frozen=True)
class JsonSchemaType:
    """A schema's columns, formats of fields by path, as `JsonOptions.formats` has them, and the schema's title."""

    type: pa.StructType
    formats: Mapping[str, str]
    title: str | None = None

    @property
    def columns(self) -> Record:
        """The same columns as a tree of fields, in which JSON text is a type of its own."""
        made = _columns(self.type, "", self.formats)
        assert isinstance(made, Record)
        return made


def read_json_schema(text: str, references: Mapping[str, str] | None = None) -> JsonSchemaType:
    """The schema's text. references: texts of the schemas that `$ref` names, by that name.

    Raises:
        InvalidSchema: it is no schema, or refers to what is not there.
        UnsupportedSchema: its documents are no objects with properties.
    """
    reader = _Reader({"": _document(text), **{name: _document(its) for name, its in (references or {}).items()}})
    kind = reader.type_of(reader.documents[""], "", "", _Within((("", ""),)))
    if not pa.types.is_struct(kind):
        raise UnsupportedSchema("", "its documents are no objects with properties: there are no columns")
    root = reader.documents[""]
    title = root.get("title") if isinstance(root, dict) else None
    return JsonSchemaType(kind, reader.formats, title if isinstance(title, str) else None)


def _columns(kind: pa.DataType, path: str, formats: Mapping[str, str]) -> RowType:
    if pa.types.is_struct(kind):
        below = ((child, f"{path}.{quoted(child.name)}" if path else quoted(child.name)) for child in kind)
        return Record(tuple(Field(child.name, _columns(child.type, its, formats)) for child, its in below))
    if pa.types.is_map(kind):
        return Map(kind.key_type, _columns(kind.item_type, f"{path}[]", formats))
    if pa.types.is_list(kind):
        return Array(_columns(kind.value_type, f"{path}[]", formats))
    return JsonText() if formats.get(path) == JSON_TEXT else kind


@dataclass(frozen=True)
class _Within:
    """The references that a schema is within, as document and pointer, and how deep it is."""

    references: tuple[tuple[str, str], ...]
    depth: int = 0

    def below(self, references: tuple[tuple[str, str], ...]) -> _Within:
        return _Within((*self.references, *references), self.depth + 1)


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSchema("", "is no JSON document") from None


@dataclass
class _Reader:
    documents: Mapping[str, Any]
    formats: dict[str, str] = field(default_factory=dict)
    _fields: int = 0
    _parts: int = 0

    def type_of(self, schema: Any, base: str, path: str, around: _Within) -> pa.DataType:
        """base: the document that the schema is in."""
        schema, base, seen = self._resolved(schema, base, path)
        if around.depth >= DEEPEST or any(each in around.references for each in seen) or not isinstance(schema, dict):
            return self._text(path)
        inside = around.below(seen)
        kinds = self._kinds(schema)
        for word in _CHOICES:
            if isinstance(schema.get(word), list):
                return self._choice(schema, schema[word], base, path, inside)
        if kinds is None or len(kinds) != 1:
            return pa.float64() if kinds == {"integer", "number"} else self._text(path)
        (kind,) = kinds
        if kind == "object":
            return self._object(schema, base, path, inside)
        if kind == "array":
            element = self.type_of(schema.get("items", True), base, f"{path}[]", inside)
            return pa.list_(element)
        return self._scalar(schema, kind, path)

    def _kinds(self, schema: dict[str, Any]) -> set[str] | None:
        """The types that are allowed beside null; None: any."""
        given = schema.get("type")
        if given is None:
            if "properties" in schema:
                return {"object"}
            values = schema.get("enum", [schema["const"]] if "const" in schema else None)
            listed = values if isinstance(values, list) else []
            texts = [each for each in listed if isinstance(each, str)]
            return {"string"} if texts and len(texts) + listed.count(None) == len(listed) else None
        listed = given if isinstance(given, list) else [given]
        return {each for each in listed if isinstance(each, str) and each != "null"}

    def _choice(self, schema: dict[str, Any], choices: list[Any], base: str, path: str, inside: _Within) -> pa.DataType:
        others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(others) != 1:
            return self._text(path)
        rest = {key: value for key, value in schema.items() if key not in _CHOICES}
        chosen = others[0]
        if isinstance(chosen, dict) and "$ref" not in chosen:
            chosen = {**rest, **chosen}
        return self.type_of(chosen, base, path, inside)

    def _object(self, schema: dict[str, Any], base: str, path: str, inside: _Within) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            fields = []
            for name, each in properties.items():
                if each is False:
                    continue  # it may never be there
                self._fields += 1
                if self._fields > _MOST_FIELDS:
                    raise UnsupportedSchema(path, f"the schema has more than {_MOST_FIELDS} fields")
                below = f"{path}.{quoted(name)}" if path else quoted(name)
                fields.append(pa.field(name, self.type_of(each, base, below, inside)))
            return pa.struct(fields)
        values = schema.get("additionalProperties", True)
        if not path or not isinstance(values, dict):
            return self._text(path)
        return pa.map_(pa.string(), self.type_of(values, base, f"{path}[]", inside))

    def _scalar(self, schema: dict[str, Any], kind: str, path: str) -> pa.DataType:
        hint, title = schema.get("connect.type"), schema.get("title")
        if isinstance(title, str) and title.startswith(_CONNECT) and isinstance(hint, str):
            given = {"type": hint, "name": title, "parameters": schema.get("connect.parameters")}
            try:
                logical: ConnectType = read_connect_schema(json.dumps(given))
            except PayloadSchemaError as error:
                raise InvalidSchema(path, error.reason) from None
            self.formats.update(logical.formats(path))
            return logical.type
        if kind == "string":
            if hint == "bytes" or schema.get("contentEncoding") == "base64":
                return pa.binary()
            written = schema.get("format")
            if written in ("date-time", "date"):
                self.formats[path] = ISO
                return pa.date32() if written == "date" else pa.timestamp("us", tz="UTC")
        if kind in ("integer", "number") and isinstance(hint, str) and hint in _HINTS:
            return _HINTS[hint]
        return _SIMPLE[kind] if kind in _SIMPLE else self._text(path)

    def _text(self, path: str) -> pa.DataType:
        self.formats[path] = JSON_TEXT
        return pa.string()

    # -- references

    def _resolved(
        self, schema: Any, base: str, path: str, depth: int = 0
    ) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
        """The schema that `$ref` and `allOf` lead to, its document, and all references on the way."""
        seen: list[tuple[str, str]] = []
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            found, base, where = self._referred(schema["$ref"], base, path)
            if (base, where) in seen:
                raise InvalidSchema(path, "a $ref that leads to itself")
            seen.append((base, where))
            schema = {**found, **rest} if rest and isinstance(found, dict) else found
        if isinstance(schema, dict) and isinstance(schema.get("allOf"), list):
            joined = {key: value for key, value in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                if depth >= DEEPEST:
                    raise UnsupportedSchema(path, f"allOf is nested more than {DEEPEST} deep")
                self._parts += 1
                if self._parts > _MOST_PARTS:
                    raise UnsupportedSchema(path, f"the schema has more than {_MOST_PARTS:,} parts of allOf")
                its, its_base, below = self._resolved(part, base, path, depth + 1)
                if its_base != base:
                    return True, base, tuple(seen)  # references of its parts are those of two documents
                seen += below
                joined = _joined(joined, its) if isinstance(its, dict) else joined
            schema = joined
        return schema, base, tuple(dict.fromkeys(seen))

    def _referred(self, reference: str, base: str, path: str) -> tuple[Any, str, str]:
        name, pointer = urldefrag(reference)
        own = self.documents[base].get("$id") if isinstance(self.documents[base], dict) else None
        document = base if name in ("", own) else name
        if document not in self.documents:
            raise InvalidSchema(path, f"refers to {reference}, which is not known here")
        found = self.documents[document]
        for part in unquote(pointer).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                raise InvalidSchema(path, f"refers to {reference}, which is not there")
        if pointer and not pointer.startswith("/"):
            raise InvalidSchema(path, f"refers to {reference}: references by $anchor are not read")
        return found, document, pointer


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What both schemas say: the properties of both, and of all else the second one's word."""
    joined = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        joined["properties"] = {**one["properties"], **other["properties"]}
    return joined
