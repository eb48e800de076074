"""JSON Schema, as Confluent's JsonSchemaSerializer registers it -> the type that its documents are read by.

    object with properties      struct                  $ref, allOf             what they lead to, joined
    object without              map<string, …>          oneOf, anyOf            null and one other: that one; of
    array                       array<…>                                        objects: a struct for each
                                                        any type, or several    the value as text, as it is written
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
from kseg.segment_reader.payload.json.choices import Choice
from kseg.segment_reader.payload.json.formats import ISO, JSON_TEXT
from kseg.segment_reader.payload.json_schema_choices import (
    FoundMember,
    NoChoice,
    allowed_values,
    choice_of,
    member_names,
)
from kseg.segment_reader.payload.row_schema import Array, JsonText, Map, RowField, RowRecord, RowType

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
_MOST_MEMBERS = 10_000
"""Most members of choices in the whole schema, as members of members double too; choices beyond are text."""
_MOST_PARTS = 100_000
"""Most parts of `allOf` in the whole schema: naming the same schema twice at each level doubles them with each."""


@dataclass(frozen=True)
class JsonSchemaType:
    """A schema's columns, formats of fields and choices by path, as `JsonOptions` has them, and the schema's title."""

    type: pa.StructType
    formats: Mapping[str, str]
    title: str | None = None
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def columns(self) -> RowRecord:
        """The same columns as a tree of fields, in which JSON text is a type of its own."""
        made = _columns(self.type, "", self.formats)
        assert isinstance(made, RowRecord)
        return made


def read_json_schema(text: str, references: Mapping[str, str] | None = None, *, choices: bool = True) -> JsonSchemaType:
    """The schema's text. references: texts of the schemas that `$ref` names, by that name. choices: `oneOf` and `anyOf`
    of objects are structs of their members, and not JSON text.

    Raises:
        InvalidSchema: it is no schema, or refers to what is not there.
        UnsupportedSchema: its documents are no objects with properties.
    """
    documents = {"": _document(text), **{name: _document(its) for name, its in (references or {}).items()}}
    reader = _Reader(documents, choices)
    kind = reader.type_of(reader.documents[""], "", "", _Within((("", ""),)))
    if not pa.types.is_struct(kind):
        choice = reader.undecided and f"its documents are a choice, and {reader.undecided}"
        raise UnsupportedSchema("", f"{choice or 'its documents are no objects with properties'}: there are no columns")
    root = reader.documents[""]
    title = root.get("title") if isinstance(root, dict) else None
    return JsonSchemaType(kind, reader.formats, title if isinstance(title, str) else None, reader.choices)


def _columns(kind: pa.DataType, path: str, formats: Mapping[str, str]) -> RowType:
    if pa.types.is_struct(kind):
        below = ((child, f"{path}.{quoted(child.name)}" if path else quoted(child.name)) for child in kind)
        return RowRecord(tuple(RowField(child.name, _columns(child.type, its, formats)) for child, its in below))
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
    """undecided: why a choice at the top is no struct."""

    documents: Mapping[str, Any]
    reads_choices: bool = True
    formats: dict[str, str] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    undecided: str | None = None
    _members_read: int = 0
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
        rest = {key: value for key, value in schema.items() if key not in _CHOICES}
        if len(others) != 1:
            both = all(isinstance(schema.get(word), list) for word in _CHOICES)
            readable = self.reads_choices and others and not both
            return self._members(rest, others, base, path, inside) if readable else self._text(path)
        chosen = others[0]
        if isinstance(chosen, dict) and "$ref" not in chosen:
            chosen = {**rest, **chosen}
        return self.type_of(chosen, base, path, inside)

    def _members(self, rest: dict[str, Any], others: list[Any], base: str, path: str, inside: _Within) -> pa.DataType:
        """A struct of the objects that a value may be, if its properties show which one it is; else text.

        rest: what the schema says beside the choice.
        """
        formats, choices = len(self.formats), len(self.choices)
        try:
            found = [self._member(rest, each, base, path) for each in others]
            if "properties" in rest and not any(each.own.get("properties") for each in found):
                return self.type_of(rest, base, path, inside)  # the members only validate
            names = member_names(found)
            made = choice_of(names, found)
            fields = [self._member_field(name, each, path, inside) for name, each in zip(names, found, strict=True)]
        except (NoChoice, InvalidSchema) as reason:
            if not path and isinstance(reason, InvalidSchema):
                raise
            _shortened(self.formats, formats)
            _shortened(self.choices, choices)
            if not path:
                self.undecided = str(reason)
            return self._text(path)
        self.choices[path] = made
        return pa.struct(fields)

    def _member(self, rest: dict[str, Any], given: Any, base: str, path: str) -> FoundMember:
        own, its_base, references = self._resolved(given, base, path)
        if not isinstance(own, dict):
            raise NoChoice("a member is no object with properties")
        if its_base == base:
            schema = _joined({key: value for key, value in rest.items() if key != "title"}, own)
        elif "properties" in rest:
            raise NoChoice("there are properties beside members that are in another document")
        else:
            schema = own
        properties = schema.get("properties")
        each = properties.items() if isinstance(properties, dict) else ()
        values = {name: allowed_values(self._resolved(its, its_base, path)[0]) for name, its in each}
        decisive = {name: allowed for name, allowed in values.items() if allowed}
        return FoundMember(schema, its_base, given, own, references, decisive)

    def _member_field(self, name: str, member: FoundMember, path: str, inside: _Within) -> pa.Field:
        self._members_read += 1
        if self._members_read > _MOST_MEMBERS:
            raise NoChoice(f"the schema has more than {_MOST_MEMBERS:,} members of choices")
        if any(each in inside.references for each in member.references):
            raise NoChoice(f"{name} is a schema that it is within")
        kind = self.type_of(member.schema, member.base, _below(path, name), inside.below(member.references))
        if not pa.types.is_struct(kind):
            raise NoChoice(f"{name} is no object with properties")
        return pa.field(name, kind)

    def _count(self, path: str) -> None:
        self._fields += 1
        if self._fields > _MOST_FIELDS:
            raise UnsupportedSchema(path, f"the schema has more than {_MOST_FIELDS} fields")

    def _object(self, schema: dict[str, Any], base: str, path: str, inside: _Within) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            fields = []
            for name, each in properties.items():
                if each is False:
                    continue  # it may never be there
                self._count(path)
                fields.append(pa.field(name, self.type_of(each, base, _below(path, name), inside)))
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


def _below(path: str, name: str) -> str:
    return f"{path}.{quoted(name)}" if path else quoted(name)


def _shortened(added: dict[str, Any], length: int) -> None:
    """Without the entries that were added last."""
    while len(added) > length:
        added.popitem()


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema of both schemas' constraints: the properties of both, what either requires, and of all else the second
    one's word."""
    joined = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        joined["properties"] = {**one["properties"], **other["properties"]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        joined["required"] = [*one["required"], *other["required"]]
    return joined
