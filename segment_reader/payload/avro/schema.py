"""Avro schemas: JSON -> checked types, names resolved, logical types recognised.

By the specification (1.12). A logical type that is unknown or invalid (a decimal whose scale exceeds its precision, a
uuid on `int`) is ignored: the value is that of the underlying type. Defaults are kept as JSON and checked where they
are used (`segment_reader.payload.avro.defaults`): registries hold schemas with wrong ones. Names have letters of any
alphabet, and namespaces and aliases any characters, as in Java: registries hold such schemas too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from kseg.segment_reader.payload.avro.connect import with_avros_names
from kseg.segment_reader.payload.avro.limits import MAX_DEPTH
from kseg.segment_reader.payload.errors import InvalidSchema


class PrimitiveKind(StrEnum):
    """Primitive types, as schemas name them."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


class Logical(StrEnum):
    """Logical types, as schemas name them."""

    DECIMAL = "decimal"
    UUID = "uuid"
    DATE = "date"
    TIME_MILLIS = "time-millis"
    TIME_MICROS = "time-micros"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_TIMESTAMP_MILLIS = "local-timestamp-millis"
    LOCAL_TIMESTAMP_MICROS = "local-timestamp-micros"
    LOCAL_TIMESTAMP_NANOS = "local-timestamp-nanos"
    DURATION = "duration"
    ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
    """Debezium's, a text (`segment_reader.payload.avro.connect`)."""


#: What each logical type may annotate; decimal, and uuid and duration on fixed, are looked at apart.
_ANNOTATES: Final = {
    Logical.UUID: PrimitiveKind.STRING,
    Logical.DATE: PrimitiveKind.INT,
    Logical.TIME_MILLIS: PrimitiveKind.INT,
    Logical.TIME_MICROS: PrimitiveKind.LONG,
    Logical.TIMESTAMP_MILLIS: PrimitiveKind.LONG,
    Logical.TIMESTAMP_MICROS: PrimitiveKind.LONG,
    Logical.TIMESTAMP_NANOS: PrimitiveKind.LONG,
    Logical.LOCAL_TIMESTAMP_MILLIS: PrimitiveKind.LONG,
    Logical.LOCAL_TIMESTAMP_MICROS: PrimitiveKind.LONG,
    Logical.LOCAL_TIMESTAMP_NANOS: PrimitiveKind.LONG,
    Logical.ZONED_TIMESTAMP: PrimitiveKind.STRING,
}

_KINDS: Final = {kind.value: kind for kind in PrimitiveKind}
_LOGICALS: Final = {logical.value: logical for logical in Logical}


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


#: A field without a default; None is the default `null`.
NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True, slots=True)
class Primitive:
    """precision, scale: of a decimal."""

    kind: PrimitiveKind
    logical: Logical | None = None
    precision: int = 0
    scale: int = 0


# Named types are compared by identity: a record may contain itself.


@dataclass(eq=False, slots=True)
class AvroField:
    """default: JSON, or NO_DEFAULT."""

    name: str
    schema: Schema
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class AvroRecord:
    """name, aliases: full names."""

    name: str
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class AvroEnum:
    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(eq=False, slots=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None
    precision: int = 0
    scale: int = 0


@dataclass(eq=False, slots=True)
class AvroArray:
    items: Schema


@dataclass(eq=False, slots=True)
class AvroMap:
    values: Schema


@dataclass(eq=False, slots=True)
class Union:
    branches: tuple[Schema, ...]


Named: TypeAlias = AvroRecord | AvroEnum | Fixed
Schema: TypeAlias = Primitive | Named | AvroArray | AvroMap | Union


def parse_schema(text: str | bytes, references: Sequence[str | bytes] = (), *, connect: bool = False) -> Schema:
    """The schema in `text`. references: schemas whose named types it may use, each after those that it uses.

    connect: logical types of Kafka Connect and Debezium are read as Avro's (`segment_reader.payload.avro.connect`).

    Raises:
        InvalidSchema: with the place within the schema.
    """
    names: dict[str, Named] = {}
    for reference in references:
        _parse(_load(reference), _Context(names, connect))
    return _parse(_load(text), _Context(names, connect))


def is_null(schema: Schema) -> bool:
    return isinstance(schema, Primitive) and schema.kind is PrimitiveKind.NULL


def simple_name(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def describe(schema: Schema) -> str:
    """A type in a few words, for messages: `record shop.Order`, `array of long`, `decimal(10, 2) on bytes`."""
    match schema:
        case Primitive(kind, None):
            return kind.value
        case Primitive(kind, logical, precision, scale):
            return f"{_logical_words(logical, precision, scale)} on {kind.value}"
        case AvroRecord():
            return f"record {schema.name}"
        case AvroEnum():
            return f"enum {schema.name}"
        case Fixed():
            words = f"fixed {schema.name}({schema.size})"
            if schema.logical is None:
                return words
            return f"{_logical_words(schema.logical, schema.precision, schema.scale)} on {words}"
        case AvroArray():
            return f"array of {describe(schema.items)}"
        case AvroMap():
            return f"map of {describe(schema.values)}"
        case Union():
            return "union of " + ", ".join(describe(branch) for branch in schema.branches)


def _logical_words(logical: Logical | None, precision: int, scale: int) -> str:
    return f"decimal({precision}, {scale})" if logical is Logical.DECIMAL else str(logical)


# -- parsing


@dataclass(frozen=True, slots=True)
class _Context:
    """The parser's place. names: all named types so far, by full name."""

    names: dict[str, Named]
    connect: bool
    namespace: str = ""
    place: str = ""
    depth: int = 0

    def into(self, step: str) -> _Context:
        if self.depth >= MAX_DEPTH:
            raise InvalidSchema(self.place, f"types are nested more than {MAX_DEPTH} deep")
        return replace(self, place=self.place + step, depth=self.depth + 1)

    def error(self, reason: str) -> InvalidSchema:
        return InvalidSchema(self.place, reason)


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(text, str) and re.fullmatch(r"[\w.-]+", text):
            return text  # a bare name, as registries may return it
        raise InvalidSchema("", f"no JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _parse(node: Any, at: _Context) -> Schema:
    if isinstance(node, str):
        return _by_name(node, at)
    if isinstance(node, list):
        return _union(node, at)
    if not isinstance(node, dict):
        raise at.error(f"a schema is a name, an object or a list, not {json.dumps(node)[:60]}")
    match node.get("type"):
        case "record" | "error":
            return _record(node, at)
        case "enum":
            return _enum(node, at)
        case "fixed":
            return _fixed(node, at)
        case "array":
            return AvroArray(_parse(_attribute(node, "items", at), at.into("[]")))
        case "map":
            return AvroMap(_parse(_attribute(node, "values", at), at.into("{}")))
        case str(name) if name in _KINDS:
            return _annotated(Primitive(_KINDS[name]), with_avros_names(node) if at.connect else node)
        case None:
            raise at.error("`type` is missing")
        case inner:
            return _parse(inner, at.into(""))


def _by_name(name: str, at: _Context) -> Schema:
    if name in _KINDS:
        return Primitive(_KINDS[name])
    full = _full_name(name, at.namespace)
    found = at.names.get(full) or at.names.get(name)
    if found is None:
        raise at.error(f"unknown type `{full}`: it is neither defined before its use nor among the references")
    return found


def _union(nodes: Sequence[Any], at: _Context) -> Union:
    if not nodes:
        raise at.error("a union without branches")
    branches: list[Schema] = []
    seen: set[str] = set()
    for n, node in enumerate(nodes):
        branch = _parse(node, at.into(f"<{n}>"))
        if isinstance(branch, Union):
            raise at.error("a union directly within a union")
        key = branch.kind if isinstance(branch, Primitive) else getattr(branch, "name", type(branch).__name__)
        if key in seen:
            raise at.error(f"a union with two branches of type {describe(branch)}")
        seen.add(key)
        branches.append(branch)
    return Union(tuple(branches))


def _record(node: Mapping[str, Any], at: _Context) -> AvroRecord:
    name, aliases = _names(node, at)
    record = AvroRecord(name, aliases)
    _define(record, at)
    at = replace(at, namespace=name.rpartition(".")[0], place=at.place or simple_name(name))
    fields = _attribute(node, "fields", at)
    if not isinstance(fields, list):
        raise at.error("`fields` is no list")
    seen: set[str] = set()
    for item in fields:
        if not isinstance(item, dict):
            raise at.error("a field is no object")
        own = _checked(item.get("name"), at)
        below = at.into(f".{own}")
        if own in seen:
            raise below.error("two fields of this name")
        seen.add(own)
        schema = _parse(_attribute(item, "type", below), below)
        field_aliases = tuple(_strings(item, "aliases", below))
        record.fields.append(AvroField(own, schema, item.get("default", NO_DEFAULT), field_aliases))
    return record


def _enum(node: Mapping[str, Any], at: _Context) -> AvroEnum:
    name, aliases = _names(node, at)
    _attribute(node, "symbols", at)
    symbols = tuple(_checked(symbol, at) for symbol in _strings(node, "symbols", at))
    if len(set(symbols)) != len(symbols):
        raise at.error("an enum with the same symbol twice")
    default = node.get("default")
    if default is not None and default not in symbols:
        raise at.error(f"the enum's default {json.dumps(default)} is none of its symbols")
    enum = AvroEnum(name, symbols, aliases, default)
    _define(enum, at)
    return enum


def _fixed(node: Mapping[str, Any], at: _Context) -> Fixed:
    name, aliases = _names(node, at)
    size = _attribute(node, "size", at)
    if not _is_int(size) or not 0 <= size <= 2**31 - 1:
        raise at.error(f"a fixed type's size is a number of bytes, not {json.dumps(size)[:60]}")
    fixed = Fixed(name, size, aliases)
    match _LOGICALS.get(str(node.get("logicalType"))):
        case Logical.DECIMAL:
            digits = _decimal_digits(node)
            # so many digits fit into the signed number of that size
            if digits is not None and 10 ** digits[0] <= 1 << max(8 * min(size, 1 << 10) - 1, 0):
                fixed.logical, (fixed.precision, fixed.scale) = Logical.DECIMAL, digits
        case Logical.UUID if size == 16:
            fixed.logical = Logical.UUID
        case Logical.DURATION if size == 12:
            fixed.logical = Logical.DURATION
    _define(fixed, at)
    return fixed


def _annotated(schema: Primitive, node: Mapping[str, Any]) -> Primitive:
    logical = _LOGICALS.get(str(node.get("logicalType")))
    if logical is Logical.DECIMAL and schema.kind is PrimitiveKind.BYTES:
        digits = _decimal_digits(node)
        return schema if digits is None else Primitive(schema.kind, logical, *digits)
    if logical is not None and _ANNOTATES.get(logical) is schema.kind:
        return Primitive(schema.kind, logical)
    return schema


def _decimal_digits(node: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale; None where they are invalid."""
    precision, scale = node.get("precision", 0), node.get("scale", 0)
    if _is_int(precision) and _is_int(scale) and 0 <= scale <= precision and 0 < precision <= 2000:
        return precision, scale
    return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _attribute(node: Mapping[str, Any], name: str, at: _Context) -> Any:
    if name not in node:
        raise at.error(f"`{name}` is missing")
    return node[name]


def _strings(node: Mapping[str, Any], name: str, at: _Context) -> list[str]:
    values = node.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise at.error(f"`{name}` is no list of names")
    return values


# -- names


def _names(node: Mapping[str, Any], at: _Context) -> tuple[str, tuple[str, ...]]:
    """A named type's full name and those of its aliases, which are in its own namespace unless they say another."""
    name = node.get("name")
    if not isinstance(name, str):
        raise at.error("a named type without a name")
    namespace = node.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise at.error("`namespace` is no text")
    full = _full_name(name, at.namespace if namespace is None else namespace)
    own, _, simple = full.rpartition(".")
    _checked(simple, at)
    return full, tuple(_full_name(alias, own) for alias in _strings(node, "aliases", at))


def _full_name(name: str, namespace: str) -> str:
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    return full.lstrip(".")  # `.Order` is in no namespace


def _checked(name: Any, at: _Context) -> str:
    if not isinstance(name, str) or not _is_name(name):
        raise at.error(f"{json.dumps(name)[:60]} is no name: letters, digits and _, not beginning with a digit")
    return name


def _is_name(text: str) -> bool:
    plain = text.replace("_", "a")
    return plain.isalnum() and plain[0].isalpha()


def _define(schema: Named, at: _Context) -> None:
    if schema.name in _KINDS:
        raise at.error(f"`{schema.name}` is a primitive type's name")
    if at.names.setdefault(schema.name, schema) is not schema:
        raise at.error(f"the type `{schema.name}` is defined twice")
