"""A FileDescriptorSet's bytes -> schema: what `protoc --include_imports --descriptor_set_out` writes.

Read by the wire format alone, so that workers need no Protobuf library. Numbers of fields are descriptor.proto's.
Of two files' features a file's own hold for all in it unless a message, field or enum says otherwise.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf.schema import EnumType, FieldKind, MessageType, ProtobufField, ProtobufSchema
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, VARINT, WireReader

_REQUIRED, _REPEATED = 2, 3  # labels
_NAMED = (FieldKind.MESSAGE, FieldKind.GROUP, FieldKind.ENUM)
_NO_KEYS = (*_NAMED, FieldKind.DOUBLE, FieldKind.FLOAT, FieldKind.BYTES)
_MAX_NESTED: Final = 64

# FeatureSet's fields, and the values that matter here
_PRESENCE, _ENUM_TYPE, _ENCODING = 1, 2, 5
_IMPLICIT, _LEGACY_REQUIRED, _CLOSED, _DELIMITED_MESSAGE = 2, 3, 2, 2


@dataclass(frozen=True)
class _Features:
    presence: int
    enum: int
    encoding: int

    def and_those_of(self, options: WireReader | None, number: int) -> _Features:
        """number: of the field `features` in these options."""
        for found in _all(options, number):
            values = dict(_numbers(found))
            self = replace(
                self,
                presence=values.get(_PRESENCE, self.presence),
                enum=values.get(_ENUM_TYPE, self.enum),
                encoding=values.get(_ENCODING, self.encoding),
            )
        return self


_BY_SYNTAX: Final = {
    "proto2": _Features(presence=1, enum=_CLOSED, encoding=1),
    "proto3": _Features(presence=_IMPLICIT, enum=1, encoding=1),
    "editions": _Features(presence=1, enum=1, encoding=1),
}


def parse_descriptors(data: bytes) -> ProtobufSchema:
    """Raises InvalidSchema: no FileDescriptorSet, or one without the files that it imports."""
    try:
        return _Builder().schema(data)
    except (BadPayload, UnicodeDecodeError, ValueError) as error:
        reason = error.message if isinstance(error, BadPayload) else str(error)
        raise InvalidSchema("", f"no file descriptor set: {reason}") from None


def parse_base64(text: str) -> ProtobufSchema:
    """Parses descriptors like `parse_descriptors`, from the text that a job keeps."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidSchema("", "no Protobuf schema: give a .proto file, or its descriptors in a .desc file") from None
    return parse_descriptors(data)


def dependencies(data: bytes) -> list[str]:
    """The paths that one file's descriptor imports. Raises BadPayload, UnicodeDecodeError."""
    return [_string(each) for each in _all(WireReader(data), 3)]


class _Builder:
    def __init__(self) -> None:
        self._messages: dict[str, MessageType] = {}
        self._enums: dict[str, EnumType] = {}
        self._pending: list[tuple[MessageType, WireReader, _Features]] = []

    def schema(self, data: bytes) -> ProtobufSchema:
        top: tuple[MessageType, ...] = ()
        files = 0
        for file in _all(WireReader(data), 1):
            top = self._file(file)
            files += 1
        if not files:
            raise InvalidSchema("", "no file descriptor set: it has no file")
        for message, fields, features in self._pending:
            message.fields += sorted(self._fields(message, fields, features), key=lambda own: own.number)
        for message in self._messages.values():
            if message.map_entry:
                _check_entry(message)
        return ProtobufSchema(self._messages, top)

    def _file(self, file: WireReader) -> tuple[MessageType, ...]:
        parts = _parts(file)
        syntax = _text(parts, 12) or "proto2"
        if syntax not in _BY_SYNTAX:
            raise InvalidSchema(_text(parts, 1), f"the syntax {syntax!r} is not known")
        features = _BY_SYNTAX[syntax].and_those_of(_last(parts, 8), 50)
        package = _text(parts, 2)
        for enum in parts.get(5, ()):
            self._enum(enum, package, features)
        return tuple(self._message(message, package, features, 0) for message in parts.get(4, ()))

    def _message(self, data: WireReader, around: str, features: _Features, depth: int) -> MessageType:
        if depth > _MAX_NESTED:
            raise InvalidSchema(around, f"messages are defined more than {_MAX_NESTED} deep in each other")
        parts = _parts(data)
        options = _last(parts, 7)
        features = features.and_those_of(options, 12)
        name = _joined(around, _text(parts, 1))
        message = MessageType(name, map_entry=bool(dict(_numbers(options)).get(7)))
        self._messages[name] = message
        for enum in parts.get(4, ()):
            self._enum(enum, name, features)
        message.nested += [self._message(nested, name, features, depth + 1) for nested in parts.get(3, ())]
        for own in parts.get(2, ()):
            self._pending.append((message, own, features))
        return message

    def _enum(self, data: WireReader, around: str, features: _Features) -> None:
        parts = _parts(data)
        features = features.and_those_of(_last(parts, 3), 7)
        name = _joined(around, _text(parts, 1))
        symbols: dict[int, str] = {}
        for value in parts.get(2, ()):
            inner = _parts(value)
            symbols.setdefault(_signed(dict(_numbers(value)).get(2, 0)), _text(inner, 1))
        if not symbols:
            raise InvalidSchema(name, "an enum without values")
        self._enums[name] = EnumType(name, symbols, closed=features.enum == _CLOSED)

    def _fields(self, message: MessageType, data: WireReader, features: _Features) -> Iterator[ProtobufField]:
        parts, numbers = _parts(data), dict(_numbers(data))
        features = features.and_those_of(_last(parts, 8), 21)
        name, type_name = _text(parts, 1), _text(parts, 6).removeprefix(".")
        place = f"{message.name}.{name}"
        kind, label = FieldKind(numbers.get(5, 0)), numbers.get(4, 1)
        if kind is FieldKind.MESSAGE and features.encoding == _DELIMITED_MESSAGE and not message.map_entry:
            kind = FieldKind.GROUP
        inner = enum = None
        if kind in (FieldKind.MESSAGE, FieldKind.GROUP):
            inner = self._messages.get(type_name)
            if inner is not None and inner.map_entry:
                kind = FieldKind.MESSAGE
        elif kind is FieldKind.ENUM:
            enum = self._enums.get(type_name)
        if inner is None and enum is None and type_name:
            raise InvalidSchema(place, f"the type {type_name} is missing: the file that defines it belongs here, too")
        if inner is None and enum is None and kind in _NAMED:
            raise InvalidSchema(place, "a field whose type is a message or an enum does not say which")
        if not name or numbers.get(3, 0) < 1:
            raise InvalidSchema(place, "a field without a name or number")
        repeated = label == _REPEATED
        oneof = numbers.get(9)
        implicit = features.presence == _IMPLICIT and oneof is None and inner is None
        yield ProtobufField(
            name=name,
            number=numbers[3],
            kind=kind,
            repeated=repeated,
            required=label == _REQUIRED or (features.presence == _LEGACY_REQUIRED and not repeated and oneof is None),
            presence=not (implicit or repeated or message.map_entry),
            oneof=None if numbers.get(17) else oneof,
            message=inner,
            enum=enum,
        )


def _check_entry(message: MessageType) -> None:
    """A map's entries have a key and a value; keys are whole numbers, booleans or texts.

    https://protobuf.dev/programming-guides/proto3/#maps
    """
    if [own.number for own in message.fields] != [1, 2] or any(own.repeated for own in message.fields):
        raise InvalidSchema(message.name, "the entries of a map have one key and one value, fields 1 and 2")
    if message.fields[0].kind in _NO_KEYS:
        raise InvalidSchema(f"{message.name}.{message.fields[0].name}", "a map's key cannot have this type")


# -- the wire format, as descriptors use it


def _parts(data: WireReader) -> Mapping[int, list[WireReader]]:
    """Readers of all length-delimited fields, by number."""
    found: dict[int, list[WireReader]] = {}
    reader = WireReader(data.data, data.position, data.end)
    for number, kind in reader.fields():
        if kind == DELIMITED:
            found.setdefault(number, []).append(reader.below())
        else:
            reader.skip(number, kind)
    return found


def _numbers(data: WireReader | None) -> Iterator[tuple[int, int]]:
    if data is None:
        return
    reader = WireReader(data.data, data.position, data.end)
    for number, kind in reader.fields():
        if kind == VARINT:
            yield number, reader.varint()
        else:
            reader.skip(number, kind)


def _all(data: WireReader | None, number: int) -> list[WireReader]:
    return [] if data is None else _parts(data).get(number, [])


def _last(parts: Mapping[int, list[WireReader]], number: int) -> WireReader | None:
    found: Any = parts.get(number)
    return found[-1] if found else None


def _text(parts: Mapping[int, list[WireReader]], number: int) -> str:
    found = _last(parts, number)
    return "" if found is None else _string(found)


def _string(reader: WireReader) -> str:
    return reader.data[reader.position : reader.end].decode()


def _signed(value: int) -> int:
    value &= 2**32 - 1
    return value - 2**32 if value >> 31 else value


def _joined(around: str, name: str) -> str:
    if not name:
        raise InvalidSchema(around, "a message or enum without a name")
    return f"{around}.{name}" if around else name
