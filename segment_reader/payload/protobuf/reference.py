"""Plain: one payload at a time to Python values. Its rules are the kernel's too, which leaves to it what is rare.

value      the last one that is written counts; one of another wire type than the schema's is an unknown field
message    written twice is merged: its fields as above, its lists one after the other
list       numbers may be packed or not, and both
map        entries; of two with one key the last counts. Without its key or value an entry has the default; one with
           anything else in it, or with a number that a closed enum does not have, is an unknown field
oneof      the member that was written last; the others are null
unknown    fields are left out, after a look at their structure; so are numbers that a closed enum does not have

First the bytes are read as they come, then all required fields must be there, then times and JSON are made.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload, PlainDecoder, nullable, within
from kseg.segment_reader.payload.protobuf.columns import (
    FieldColumn,
    Json,
    JsonTextColumn,
    MessageColumns,
    Node,
    Presence,
    Scalar,
    Time,
    Wrapper,
    type_of,
    unwritten_text,
    wire_type,
)
from kseg.segment_reader.payload.protobuf.known import decoded, json_text, json_value, microseconds
from kseg.segment_reader.payload.protobuf.schema import FieldKind
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, GROUP, GROUP_END, VARINT, WireReader
from kseg.segment_reader.payload.rescue import json_scalar

#: Values of a message by its fields' numbers, as they are read: scalars, drafts of messages, lists, maps as dicts.
#: Under -1 and below: the number of the member that is written, of each oneof.
Draft = dict[int, Any]

_ABSENT: Final = object()
_TEXT: Final = pa.string()
_MOST_DOCUMENTS: Final = 64
_NULL_TEXT: Final = "null"
_NULLED: Final = object()
"""A value that cannot be decoded, and is null in the row."""
_INT32 = Scalar(FieldKind.INT32)
_INT64 = Scalar(FieldKind.INT64)


class ReferenceProtobufDecoder(PlainDecoder):
    """See `segment_reader.payload.decoder.PayloadDecoder`."""

    def __init__(self, struct: MessageColumns) -> None:
        self._struct = struct

    @property
    def type(self) -> pa.DataType:
        return self._struct.type

    def row(self, payload: bytes, skip: int = 0) -> Any:
        draft: Draft = {}
        _read_message(WireReader(payload, skip), self._struct, draft, None)
        _check_required(self._struct, draft)
        return _finished(self._struct, draft)


# -- bytes -> drafts


def _read_message(reader: WireReader, struct: MessageColumns, draft: Draft, group: int | None) -> None:
    """group: its number, if the message is a group, which ends with a tag."""
    while True:
        if reader.position == reader.end:
            if group is not None:
                raise BadPayload(Status.TRUNCATED, f"group {group} does not end")
            return
        number, wire = reader.tag()
        if wire == GROUP_END:
            if number != group:
                raise BadPayload(Status.MALFORMED, f"the end of group {number}, which has not begun")
            return
        column = struct.by_number.get(number)
        if column is None:
            reader.skip(number, wire)
        else:
            within(f".{column.name}", _read_field, reader, wire, column, draft)


def _read_field(reader: WireReader, wire: int, column: FieldColumn, draft: Draft) -> None:
    number, node = column.field.number, column.node
    if _packed(column, wire):
        assert isinstance(node, Scalar)
        items = draft.setdefault(number, [])
        packed = reader.below()
        while packed.position < packed.end:
            value = within(f"[{len(items)}]", _readable, _scalar, packed, node)
            if value is not _ABSENT:
                items.append(value)
        return
    if wire != _wire(column):
        reader.skip(number, wire)
    elif column.key is not None:
        _read_entry(reader.below(), column, draft.setdefault(number, {}))
    elif column.field.repeated:
        items = draft.setdefault(number, [])
        value = within(f"[{len(items)}]", _readable, _read, reader, node, None, number if wire == GROUP else None)
        if value is not _ABSENT:
            items.append(value)
    else:
        before = draft.get(number)
        before = None if before is _NULLED else before
        value = _readable(_read, reader, node, before, number if wire == GROUP else None)
        if value is _ABSENT:
            return
        if column.field.oneof is not None:
            case = -1 - column.field.oneof
            if draft.get(case, number) != number:
                draft.pop(draft[case], None)
            draft[case] = number
        draft[number] = value


def _readable(call: Callable[..., Any], *arguments: Any) -> Any:
    """A value's draft, by `_scalar` or `_read`."""
    value = nullable(call, *arguments)
    return _NULLED if value is None else value


def _packed(column: FieldColumn, wire: int) -> bool:
    """Whether the value is a list of numbers without tags."""
    scalar = column.node if isinstance(column.node, Scalar) and column.key is None else None
    return scalar is not None and column.field.repeated and wire == DELIMITED != wire_type(scalar.kind)


def _wire(column: FieldColumn) -> int:
    if isinstance(column.node, Scalar) and column.key is None:
        return wire_type(column.node.kind)
    return GROUP if column.field.kind is FieldKind.GROUP else DELIMITED


def _read_entry(reader: WireReader, column: FieldColumn, entries: dict[Any, Any]) -> None:
    assert column.key is not None
    key: Any = _default(column.key)
    value: Any = None
    wire = wire_type(column.node.kind) if isinstance(column.node, Scalar) else DELIMITED
    unknown = False  # a number that the closed enum of the values lacks
    for number, kind in reader.fields():
        if number == 1 and kind == wire_type(column.key.kind):
            key = within("[]", _readable, _scalar, reader, column.key)
        elif number == 2 and kind == wire:
            value = None if value is _NULLED else value
            found = within(_key_step(key), _readable, _read, reader, column.node, value, None)
            unknown |= found is _ABSENT
            value = value if found is _ABSENT else found
        else:
            reader.skip(number, kind)  # as Java and C++ do; upb would drop the entry
    if unknown:
        return
    if value is None:
        value = (
            _default(column.node)
            if isinstance(column.node, Scalar)
            else _read(WireReader(b"\0"), column.node, None, None)
        )
    entries[key] = value


def _key_step(key: Any) -> str:
    return f'["{key}"]' if isinstance(key, str) else f"[{key}]"


def _read(reader: WireReader, node: Node, before: Any, group: int | None) -> Any:
    """before: the draft of a message that was written already."""
    if isinstance(node, Scalar):
        return _scalar(reader, node)
    if group is None:
        reader = reader.below()
    elif not isinstance(node, MessageColumns):
        reader = _group_content(reader, group)
    match node:
        case MessageColumns():
            draft: Draft = {} if before is None else before
            _read_message(reader, node, draft, group)
            return draft
        case Wrapper(scalar):
            value = _default(scalar) if before is None else before
            for number, wire in reader.fields():
                if number == 1 and wire == wire_type(scalar.kind):
                    value = _scalar(reader, scalar)
                else:
                    reader.skip(number, wire)
            return value
        case Time():
            time: dict[int, int] = {} if before is None else before
            for number, wire in reader.fields():
                if number in (1, 2) and wire == VARINT:
                    time[number] = _scalar(reader, _INT64 if number == 1 else _INT32)
                else:
                    reader.skip(number, wire)
            return time
        case JsonTextColumn(kind):
            data: bytearray = bytearray() if before is None else before
            piece = reader.take(reader.end - reader.position)
            if isinstance(kind, Json):
                json_value(piece, kind)  # also of what is replaced or dropped later
            data += piece
            return data
        case Presence():
            for number, wire in reader.fields():
                reader.skip(number, wire)
            return True


def _group_content(reader: WireReader, group: int) -> WireReader:
    """A reader of what is in a group; this one is behind it."""
    start = reader.position
    while True:
        behind = reader.position
        number, wire = reader.tag()
        if wire == GROUP_END and number == group:
            return WireReader(reader.data, start, behind)
        reader.skip(number, wire)


def _scalar(reader: WireReader, node: Scalar) -> Any:
    kind = node.kind
    match kind:
        case FieldKind.STRING:
            return decoded(reader.take(reader.length()))
        case FieldKind.BYTES:
            return reader.take(reader.length())
        case FieldKind.DOUBLE:
            return struct.unpack("<d", reader.take(8))[0]
        case FieldKind.FLOAT:
            return struct.unpack("<f", reader.take(4))[0]
        case FieldKind.FIXED64 | FieldKind.SFIXED64:
            return int.from_bytes(reader.take(8), "little", signed=kind is FieldKind.SFIXED64)
        case FieldKind.FIXED32 | FieldKind.SFIXED32:
            return int.from_bytes(reader.take(4), "little", signed=kind is FieldKind.SFIXED32)
    value = reader.varint()
    match kind:
        case FieldKind.BOOL:
            return value != 0
        case FieldKind.UINT64:
            return value
        case FieldKind.UINT32:
            return _fitting(value, 0, 2**32, "uint32")
        case FieldKind.SINT32 | FieldKind.SINT64:
            value = (value >> 1) ^ -(value & 1)
            return value if kind is FieldKind.SINT64 else _fitting(value, -(2**31), 2**31, "sint32")
    value = value - 2**64 if value >> 63 else value
    if kind is FieldKind.INT64:
        return value
    value = _fitting(value, -(2**31), 2**31, "enum" if node.enum else "int32")
    if node.enum is not None and node.enum.closed and value not in node.enum.symbols:
        return _ABSENT
    return value


def _fitting(value: int, low: int, high: int, name: str) -> int:
    if not low <= value < high:
        raise BadPayload(Status.OUT_OF_RANGE, f"{value} is no {name}")
    return value


def _default(node: Scalar) -> Any:
    match node.kind:
        case FieldKind.STRING:
            return ""
        case FieldKind.BYTES:
            return b""
        case FieldKind.BOOL:
            return False
        case FieldKind.DOUBLE | FieldKind.FLOAT:
            return 0.0
    return node.default


# -- drafts -> rows


def _check_required(struct: MessageColumns, draft: Draft) -> None:
    for column in struct.columns:
        value = draft.get(column.field.number)
        if value is None:
            if column.field.required:
                nullable(_missing, column)
        elif value is not _NULLED and isinstance(column.node, MessageColumns):
            if column.key is not None:
                for key, each in value.items():
                    if each is not _NULLED:
                        within(f".{column.name}{_key_step(key)}", _check_required, column.node, each)
            elif column.field.repeated:
                for number, each in enumerate(value):
                    if each is not _NULLED:
                        within(f".{column.name}[{number}]", _check_required, column.node, each)
            else:
                within(f".{column.name}", _check_required, column.node, value)


def _missing(column: FieldColumn) -> None:
    raise BadPayload(Status.MISSING_FIELD, "the required field is not written", f".{column.name}")


def _finished(struct: MessageColumns, draft: Draft) -> dict[str, Any]:
    return {column.name: within(f".{column.name}", _column, column, draft) for column in struct.columns}


def _column(column: FieldColumn, draft: Draft) -> Any:
    value, node = draft.get(column.field.number), column.node
    if column.key is not None:
        key = column.key
        if value is not None and _NULLED in value:
            return None
        return [(_value(key, own), within(_key_step(own), _value, node, each)) for own, each in (value or {}).items()]
    if column.field.repeated:
        return [within(f"[{number}]", _value, node, each) for number, each in enumerate(value or ())]
    if value is None:
        if column.field.presence or not isinstance(node, Scalar):
            return None
        value = _default(node)
    return _value(node, value)


def _value(node: Node, value: Any) -> Any:
    return None if value is _NULLED else nullable(_finished_value, node, value)


def _finished_value(node: Node, value: Any) -> Any:
    match node:
        case Scalar(kind, enum) | Wrapper(Scalar(kind, enum)):
            if enum is not None:
                return enum.symbols.get(value, str(value))
            return decimal.Decimal(value) if kind in (FieldKind.UINT64, FieldKind.FIXED64) else value
        case Time():
            return microseconds(value.get(1, 0), value.get(2, 0), node)
        case JsonTextColumn():
            return document_text(bytes(value), node)
        case Presence():
            return True
        case MessageColumns():
            return _finished(node, value)


# -- documents -> JSON


def document_text(data: bytes, document: JsonTextColumn, depth: int = 1) -> str:
    """The JSON of a message's bytes. depth: how many documents it is in, itself included. Raises BadPayload."""
    if isinstance(document.json, Json):
        return json_text(data, document.json)
    if depth > _MOST_DOCUMENTS:
        raise BadPayload(Status.TOO_DEEP, f"a message is nested in itself more than {_MOST_DOCUMENTS} deep")
    struct, draft = document.json.struct, Draft()
    _read_message(WireReader(data), struct, draft, None)
    _check_required(struct, draft)
    return _object(struct, draft, depth)


def _object(struct: MessageColumns, draft: Draft, depth: int) -> str:
    """The fields that are written, but those of proto3 without presence that have their default."""
    members = []
    for column in struct.columns:
        if (value := draft.get(column.field.number)) is None:
            continue
        text = within(f".{column.name}", _column_text, column, value, depth)
        implicit = not column.field.presence and isinstance(column.node, Scalar) and not column.field.repeated
        if not (implicit and text == unwritten_text(column)):
            members.append(f"{json_scalar(column.name, _TEXT)}:{text}")
    return f"{{{','.join(members)}}}"


def _column_text(column: FieldColumn, value: Any, depth: int) -> str:
    node = column.node
    if column.key is not None:
        if _NULLED in value:
            return _NULL_TEXT
        keys = [json_scalar(_value(column.key, key), type_of(column.key)) for key in value]
        quoted = [key if column.key.kind is FieldKind.STRING else f'"{key}"' for key in keys]
        texts = [within(_key_step(key), _value_text, node, each, depth) for key, each in value.items()]
        return f"{{{','.join(f'{key}:{text}' for key, text in zip(quoted, texts, strict=True))}}}"
    if column.field.repeated:
        return f"[{','.join(within(f'[{n}]', _value_text, node, each, depth) for n, each in enumerate(value))}]"
    return _value_text(node, value, depth)


def _value_text(node: Node, value: Any, depth: int) -> str:
    if value is _NULLED:
        return _NULL_TEXT
    match node:
        case JsonTextColumn():
            return document_text(bytes(value), node, depth + 1)
        case MessageColumns():
            return _object(node, value, depth)
    found = _value(node, value)
    return _NULL_TEXT if found is None else json_scalar(found, type_of(node))
