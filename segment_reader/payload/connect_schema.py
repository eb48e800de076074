"""Kafka Connect's schemas as its JsonConverter writes them -> types, and how their values are written in JSON.

    type      int8 … int64, float, double, boolean, string, bytes, array (items), map (keys, values), struct (fields)
    name      a logical type: Connect's Decimal, Date, Time and Timestamp, and Debezium's io.debezium.time.*

A logical type that is not known has the type that it rests on, as with Connect itself. A map whose keys are no strings
is an array of pairs in JSON, which no column has a type for: it is JSON text.
Source: `org.apache.kafka.connect.json.JsonSchema`, `io.debezium.time`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kseg.segment_reader.payload.ddl import MOST_DIGITS, quoted
from kseg.segment_reader.payload.errors import InvalidSchema, PayloadSchemaError, UnsupportedSchema
from kseg.segment_reader.payload.json.formats import BASE64, EPOCH_DAYS, IN_STRING, ISO, JSON_TEXT
from kseg.segment_reader.payload.json.shape import INTEGERS, NUMBERS, Kind, Shape

DEEPEST = 100

_BASES: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_NUMBERS = ("int8", "int16", "int32", "int64", "float", "float32", "double", "float64")
_UTC, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_PAIRS = "of pairs"
"""A map whose keys are no strings."""
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
#: Logical name -> what it rests on, its type, and its format; the others stay what they rest on.
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": ("int32", pa.date32(), EPOCH_DAYS),
    "org.apache.kafka.connect.data.Timestamp": ("int64", _UTC, "epoch_millis"),
    "io.debezium.time.Date": ("int32", pa.date32(), EPOCH_DAYS),
    "io.debezium.time.Timestamp": ("int64", _LOCAL, "epoch_millis"),
    "io.debezium.time.MicroTimestamp": ("int64", _LOCAL, "epoch_micros"),
    "io.debezium.time.ZonedTimestamp": ("string", _UTC, ISO),
}


@dataclass(frozen=True)
class ConnectType:
    """A schema's type. base: what Connect calls it; format: of its values in JSON; fields: of a struct by name, or of
    an array or map its elements' under the name `[]`."""

    base: str
    type: pa.DataType
    format: str | None = None
    fields: tuple[tuple[str, ConnectType], ...] = ()

    def formats(self, path: str = "") -> Iterator[tuple[str, str]]:
        """Path -> format of all values below, as `JsonOptions.formats` has them."""
        if self.format is not None:
            yield path, self.format
        for name, field in self.fields:
            yield from field.formats(path + name if name == "[]" else _below(path, name))


def read_connect_schema(text: str) -> ConnectType:
    """The schema's text; or a message that has it. Raises InvalidSchema, UnsupportedSchema."""
    return _read(_document(text), "", 1)


def _document(text: str) -> Any:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSchema("", "is no JSON document") from None
    if isinstance(document, dict) and "type" not in document and isinstance(document.get("schema"), dict):
        return document["schema"]
    return document


def _read(schema: Any, path: str, depth: int) -> ConnectType:
    base = schema.get("type") if isinstance(schema, dict) else None
    if depth > DEEPEST:
        raise UnsupportedSchema(path, f"types are nested more than {DEEPEST} deep")
    if base == "struct":
        return _struct(schema, path, depth)
    if base == "array":
        element = _read(schema.get("items"), f"{path}[]", depth + 1)
        return ConnectType(base, pa.list_(element.type), None, (("[]", element),))
    if base == "map":
        if not _has_text_keys(schema):
            return ConnectType(_PAIRS, pa.string(), JSON_TEXT)
        value = _read(schema.get("values"), f"{path}[]", depth + 1)
        return ConnectType(base, pa.map_(pa.string(), value.type), None, (("[]", value),))
    return _scalar(schema, base, path)


def _has_text_keys(schema: dict[str, Any]) -> bool:
    keys = schema.get("keys")
    return isinstance(keys, dict) and keys.get("type") == "string"


def _scalar(schema: Any, base: Any, path: str) -> ConnectType:
    if not isinstance(base, str) or base not in _BASES:
        raise InvalidSchema(path, "is no schema of Kafka Connect: it has no `type` that Connect knows")
    if _is_decimal(schema, base):
        return _decimal(schema, path)
    name = schema.get("name")
    logical = _LOGICAL.get(name) if isinstance(name, str) else None
    if logical is not None and logical[0] == base:
        return ConnectType(base, logical[1], logical[2])
    return ConnectType(base, _BASES[base])


def _is_decimal(schema: dict[str, Any], base: str) -> bool:
    return base == "bytes" and schema.get("name") == _DECIMAL


def _listed(schema: dict[str, Any], path: str) -> list[Any]:
    listed = schema.get("fields")
    if not isinstance(listed, list):
        raise InvalidSchema(path, "a struct without `fields`")
    return listed


def _name_of(field: Any) -> str | None:
    name = field.get("field") if isinstance(field, dict) else None
    return name if isinstance(name, str) else None


def _struct(schema: dict[str, Any], path: str, depth: int) -> ConnectType:
    fields: dict[str, ConnectType] = {}
    for each in _listed(schema, path):
        name = _name_of(each)
        if name is None or name in fields:
            raise InvalidSchema(path, "each of a struct's fields has a name of its own, in `field`")
        fields[name] = _read(each, _below(path, name), depth + 1)
    kind = pa.struct([pa.field(name, field.type) for name, field in fields.items()])
    return ConnectType("struct", kind, None, tuple(fields.items()))


def _decimal(schema: dict[str, Any], path: str) -> ConnectType:
    """The bytes as they are where a column cannot hold such a decimal."""
    parameters = schema.get("parameters")
    given = parameters if isinstance(parameters, dict) else {}
    try:
        scale, precision = int(given["scale"]), int(given.get("connect.decimal.precision", MOST_DIGITS))
    except (KeyError, ValueError, TypeError):
        raise InvalidSchema(path, "a Decimal has its scale in `parameters`") from None
    if not 0 <= scale <= precision <= MOST_DIGITS or not precision:
        return ConnectType("bytes", pa.binary())
    return ConnectType("bytes", pa.decimal128(precision, scale), BASE64)


def _below(path: str, name: str) -> str:
    return f"{path}.{quoted(name)}" if path else quoted(name)


# --- a message's schema beside the declared one ----------------------------------------------------------------------


def contradiction(text: str, declared: Shape) -> PayloadSchemaError | None:
    """Why values written with this schema are not read by the declared type; None: they are.

    Fields that only one of the two has are no contradiction, whatever they are, nor is anything where JSON text is
    declared, nor are numbers of other widths: these are judged value by value. Logical types are, whose numbers mean
    something else: milliseconds and microseconds, other scales.
    """
    try:
        return _contradiction(_document(text), declared, "")
    except PayloadSchemaError as error:
        return error


def contradicting_fields(text: str, declared: Shape) -> tuple[str, ...] | None:
    """The fields of a declared struct whose values, written with this schema, are not read; None: the whole is not."""
    try:
        schema = _document(text)
        if declared.kind is not Kind.STRUCT or not isinstance(schema, dict) or schema.get("type") != "struct":
            return None
        children = declared.by_name
        names = ((each, each["field"]) for each in _listed(schema, "") if _name_of(each) in children)
        return tuple(name for each, name in names if _contradicts(each, children[name], name))
    except PayloadSchemaError:
        return None


def _contradicts(schema: Any, declared: Shape, path: str) -> bool:
    try:
        return _contradiction(schema, declared, path) is not None
    except PayloadSchemaError:
        return True


def _contradiction(schema: Any, declared: Shape, path: str) -> PayloadSchemaError | None:
    """Raises PayloadSchemaError for what is no schema, at a place that both have."""
    if declared.format is not None and declared.format.name == JSON_TEXT:
        return None
    base = schema.get("type") if isinstance(schema, dict) else None
    if declared.kind is Kind.STRUCT and base == "struct":
        children = declared.by_name
        shared = ((each, each["field"]) for each in _listed(schema, path) if _name_of(each) in children)
        below = (_contradiction(each, children[name], _below(path, name)) for each, name in shared)
        return next((found for found in below if found is not None), None)
    if declared.kind is Kind.LIST and base == "array":
        return _contradiction(schema.get("items"), declared.children[0], f"{path}[]")
    if declared.kind is Kind.MAP and base == "map" and _has_text_keys(schema):
        return _contradiction(schema.get("values"), declared.children[0], f"{path}[]")
    how = f" as {declared.format.name}" if declared.format else ""
    if base in ("struct", "array", "map"):
        its = base if base != "map" or _has_text_keys(schema) else f"{base} {_PAIRS}"
        return InvalidSchema(path, f"the message's schema has a {its}, declared is {declared.type}{how}")
    if declared.kind is Kind.BINARY and base == "bytes":
        return None
    written = _scalar(schema, base, path)
    if _agree(written, declared):
        return None
    its = f" as {written.format}" if written.format else ""
    return InvalidSchema(path, f"the message's schema has {written.type}{its}, declared is {declared.type}{how}")


def _agree(written: ConnectType, declared: Shape) -> bool:
    kind, base = declared.kind, written.base
    if kind is Kind.STRING:
        return base == "string"
    if kind in NUMBERS and declared.format is not None and declared.format.name == IN_STRING:
        return base == "string" or base in _NUMBERS
    if kind in INTEGERS or kind in (Kind.FLOAT, Kind.DOUBLE):
        return base in _NUMBERS
    if kind is Kind.BOOLEAN or kind is Kind.BINARY:
        return kind is Kind.BOOLEAN and base == "boolean"
    if kind is Kind.DECIMAL:
        of_bytes = pa.types.is_decimal(written.type) and written.type.scale == declared.type.scale
        return base in _NUMBERS or of_bytes
    if declared.format is None:
        return False
    if written.format is not None:
        texts = base == "string" and declared.format.pattern is not None
        return written.type == declared.type and (texts or written.format == declared.format.name)
    return (base == "string") == (declared.format.pattern is not None) and base in ("string", "int32", "int64")
