"""A message as columns: docs/reference/types.md is the rule. The tree that both decoders walk, and its Arrow type.

Only types that Spark and Delta have, all nullable, and nothing that would round or drop a value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from kseg.segment_reader.payload.errors import UnsupportedSchema
from kseg.segment_reader.payload.far_times import OutOfRangeTimes
from kseg.segment_reader.payload.protobuf.schema import EnumType, FieldKind, MessageType, ProtobufField
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, FIXED32, FIXED64, VARINT

#: Of all levels. A few messages that contain each other many times can name more columns than memory holds.
MAX_COLUMNS: Final = 100_000
MAX_DEPTH: Final = 64

INSTANT: Final = pa.timestamp("us", tz="UTC")
UINT64: Final = pa.decimal128(20, 0)

Nanoseconds = Literal["fail", "truncate"]
"""What Timestamps and Durations with digits below a microsecond are: an error, or cut."""

_TYPES: Final = {
    FieldKind.DOUBLE: pa.float64(),
    FieldKind.FLOAT: pa.float32(),
    FieldKind.INT64: pa.int64(),
    FieldKind.UINT64: UINT64,
    FieldKind.INT32: pa.int32(),
    FieldKind.FIXED64: UINT64,
    FieldKind.FIXED32: pa.int64(),
    FieldKind.BOOL: pa.bool_(),
    FieldKind.STRING: pa.string(),
    FieldKind.BYTES: pa.binary(),
    FieldKind.UINT32: pa.int64(),
    FieldKind.ENUM: pa.string(),
    FieldKind.SFIXED32: pa.int32(),
    FieldKind.SFIXED64: pa.int64(),
    FieldKind.SINT32: pa.int32(),
    FieldKind.SINT64: pa.int64(),
}

#: Wire types of kinds that are no varints.
_WIRE: Final = {
    FieldKind.DOUBLE: FIXED64,
    FieldKind.FIXED64: FIXED64,
    FieldKind.SFIXED64: FIXED64,
    FieldKind.FLOAT: FIXED32,
    FieldKind.FIXED32: FIXED32,
    FieldKind.SFIXED32: FIXED32,
    FieldKind.STRING: DELIMITED,
    FieldKind.BYTES: DELIMITED,
}


def wire_type(kind: FieldKind) -> int:
    """The wire type of a scalar."""
    return _WIRE.get(kind, VARINT)


class Json(IntEnum):
    """Messages of google/protobuf/struct.proto, which contain themselves: columns of JSON text."""

    STRUCT = 1
    VALUE = 2
    LIST = 3


@dataclass(frozen=True, slots=True)
class Scalar:
    kind: FieldKind
    enum: EnumType | None = None

    @property
    def default(self) -> int:
        """The number of an enum's default; all others have zero or nothing."""
        return next(iter(self.enum.symbols)) if self.enum is not None else 0


@dataclass(frozen=True, slots=True)
class Wrapper:
    """google.protobuf.Int64Value and the like: null, or the value of field 1."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """nanoseconds: of digits below a microsecond. out_of_range: of Timestamps outside of the years 1 to 9999."""

    nanoseconds: Nanoseconds = "fail"
    out_of_range: OutOfRangeTimes = "fail"


@dataclass(frozen=True, slots=True)
class Time:
    """google.protobuf.Timestamp (an instant) or Duration, both in microseconds."""

    instant: bool
    options: TimeOptions


@dataclass(frozen=True, eq=False)
class Again:
    """A message where it begins again within itself: JSON text of the fields that it has."""

    message: MessageType
    options: TimeOptions

    @cached_property
    def struct(self) -> MessageColumns:
        return _Builder(self.options).struct(self.message, self.message.simple_name, ())


@dataclass(frozen=True, slots=True)
class JsonTextColumn:
    """JSON text of a message."""

    json: Json | Again


@dataclass(frozen=True, slots=True)
class Presence:
    """A message without fields: true where it is written."""


@dataclass(frozen=True, eq=False)
class MessageColumns:
    """columns: by number of field, ascending. name: the message's, without its package."""

    name: str
    type: pa.StructType
    columns: tuple[FieldColumn, ...]
    by_number: dict[int, FieldColumn] = field(default_factory=dict)


Node: TypeAlias = Scalar | Wrapper | Time | JsonTextColumn | Presence | MessageColumns


@dataclass(frozen=True, eq=False)
class FieldColumn:
    """A field. node: of one value. key: of a map's, whose values are `node`. position: in the struct."""

    field: ProtobufField
    node: Node
    type: pa.DataType
    position: int
    key: Scalar | None = None

    @property
    def name(self) -> str:
        return self.field.name


def unwritten_text(column: FieldColumn) -> str:
    """The value of the column where its field is not written, as JSON text."""
    own, node = column.field, column.node
    if own.repeated:
        return "[]" if column.key is None else "{}"
    if own.presence or not isinstance(node, Scalar):
        return "null"
    if node.enum is not None:
        return json.dumps(node.enum.symbols.get(node.default, str(node.default)), ensure_ascii=False)
    return _DEFAULTS.get(node.kind, "0")


_DEFAULTS: Final = {
    FieldKind.BOOL: "false",
    FieldKind.STRING: '""',
    FieldKind.BYTES: '""',
    FieldKind.FLOAT: "0.0",
    FieldKind.DOUBLE: "0.0",
}

_WRAPPERS: Final = {
    "google.protobuf.DoubleValue": FieldKind.DOUBLE,
    "google.protobuf.FloatValue": FieldKind.FLOAT,
    "google.protobuf.Int64Value": FieldKind.INT64,
    "google.protobuf.UInt64Value": FieldKind.UINT64,
    "google.protobuf.Int32Value": FieldKind.INT32,
    "google.protobuf.UInt32Value": FieldKind.UINT32,
    "google.protobuf.BoolValue": FieldKind.BOOL,
    "google.protobuf.StringValue": FieldKind.STRING,
    "google.protobuf.BytesValue": FieldKind.BYTES,
}
_DOCUMENTS: Final = {
    "google.protobuf.Struct": Json.STRUCT,
    "google.protobuf.Value": Json.VALUE,
    "google.protobuf.ListValue": Json.LIST,
}
_TIMES: Final = {"google.protobuf.Timestamp": True, "google.protobuf.Duration": False}


def columns_of(message: MessageType, options: TimeOptions | None = None) -> MessageColumns:
    """The rows of a message. options: of its times; they do not change the columns.

    Raises:
        UnsupportedSchema: a message without fields, more columns than MAX_COLUMNS, messages that are nested too deep.
    """
    if not message.fields:
        raise UnsupportedSchema(message.simple_name, "a message without fields has no columns")
    return _Builder(options or TimeOptions()).struct(message, message.simple_name, ())


class _Builder:
    def __init__(self, options: TimeOptions) -> None:
        self._options = options
        self._columns = 0

    def struct(self, message: MessageType, place: str, above: tuple[MessageType, ...]) -> MessageColumns:
        inner = (*above, message)
        if len(inner) > MAX_DEPTH:
            raise UnsupportedSchema(place, f"messages are nested more than {MAX_DEPTH} deep")
        columns = []
        for position, own in enumerate(message.fields):
            self._columns += 1
            if self._columns > MAX_COLUMNS:
                raise UnsupportedSchema(place, f"the schema has more than {MAX_COLUMNS:,} columns")
            columns.append(self._column(own, position, f"{place}.{own.name}", inner))
        kind = pa.struct([(column.name, column.type) for column in columns])
        return MessageColumns(
            message.simple_name, kind, tuple(columns), {column.field.number: column for column in columns}
        )

    def _column(self, own: ProtobufField, position: int, place: str, above: tuple[MessageType, ...]) -> FieldColumn:
        if own.message is not None and own.message.map_entry and own.repeated:
            key, value = own.message.fields
            node = self._node(value, f"{place}{{}}", above)
            kind = pa.map_(_TYPES[key.kind], type_of(node))
            return FieldColumn(own, node, kind, position, Scalar(key.kind))
        node = self._node(own, f"{place}[]" if own.repeated else place, above)
        kind = pa.list_(type_of(node)) if own.repeated else type_of(node)
        return FieldColumn(own, node, kind, position)

    def _node(self, own: ProtobufField, place: str, above: tuple[MessageType, ...]) -> Node:
        if own.message is None:
            return Scalar(own.kind, own.enum)
        name = own.message.name
        if name in _TIMES:
            return Time(_TIMES[name], self._options)
        if name in _WRAPPERS:
            return Wrapper(Scalar(_WRAPPERS[name]))
        if name in _DOCUMENTS:
            return JsonTextColumn(_DOCUMENTS[name])
        if not own.message.fields:
            return Presence()
        if own.message in above:
            return JsonTextColumn(Again(own.message, self._options))
        return self.struct(own.message, place, above)


def type_of(node: Node) -> pa.DataType:
    """The type of one value."""
    match node:
        case Scalar(kind):
            return _TYPES[kind]
        case Wrapper(scalar):
            return _TYPES[scalar.kind]
        case Time(instant):
            return INSTANT if instant else pa.int64()
        case JsonTextColumn():
            return pa.string()
        case Presence():
            return pa.bool_()
        case MessageColumns():
            return node.type
