"""Random Protobuf schemas and values, and what Google's library reads of payloads: the oracle of the decoders."""

from __future__ import annotations

import decimal
import json
import math
from random import Random
from typing import Any

import pyarrow as pa
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.unknown_fields import UnknownFieldSet

_KNOWN_FILES = (any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"]
}
_DOCUMENTS = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
_TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}
_KNOWN = (*sorted(_WRAPPERS), *sorted(_DOCUMENTS), *sorted(_TIMES), "google.protobuf.Any", "google.protobuf.Empty")
_SCALARS = tuple(kind for kind in range(1, 19) if kind not in (F.TYPE_GROUP, F.TYPE_MESSAGE, F.TYPE_ENUM))
_KEYS = tuple(kind for kind in _SCALARS if kind not in (F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_BYTES))
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_TEXTS = ("", "a", "ab cd", "héllo", "日本語", "x" * 40, "\0", '"\\')


class Schemas:
    """One file `test.proto` of random messages, the last of which is `t.M0`; and its class of Google's."""

    def __init__(self, random: Random, syntax: str | None = None, *, known: bool = True) -> None:
        self._random, self._known = random, known
        self.syntax = syntax or random.choice(("proto2", "proto3", "editions"))
        file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="t", syntax=self.syntax)
        if self.syntax == "editions":
            file.edition = descriptor_pb2.EDITION_2023
        file.dependency.extend(module.DESCRIPTOR.name for module in _KNOWN_FILES)
        for n in range(random.choice((1, 2))):
            enum = file.enum_type.add(name=f"E{n}")
            numbers = [0, *random.sample((-5, 1, 2, 3, 70, 2**31 - 1, -(2**31)), random.randrange(3))]
            if self.syntax == "proto2" and n:
                random.shuffle(numbers)
            for number in numbers:
                enum.value.add(name=f"E{n}_{'N' if number < 0 else 'P'}{abs(number)}", number=number)
            if self.syntax == "editions" and random.random() < 0.5:
                enum.options.features.enum_type = descriptor_pb2.FeatureSet.CLOSED
        self._enums = len(file.enum_type)
        self.file = file
        self._count = random.choice((1, 2, 3))
        for n in reversed(range(self._count)):
            self._message(file.message_type.add(name=f"M{n}"), n)
        self.pool = descriptor_pool.DescriptorPool()
        for each in self.descriptors().file:
            self.pool.Add(each)
        self.type = message_factory.GetMessageClass(self.pool.FindMessageTypeByName("t.M0"))

    def descriptors(self) -> descriptor_pb2.FileDescriptorSet:
        known = [descriptor_pb2.FileDescriptorProto.FromString(m.DESCRIPTOR.serialized_pb) for m in _KNOWN_FILES]
        return descriptor_pb2.FileDescriptorSet(file=[*known, self.file])

    # -- schemas

    def _message(self, message: Any, number: int) -> None:
        random = self._random
        numbers = random.sample((1, 2, 3, 4, 5, 15, 16, 17, 100, 511, 512, 3000, 2**29 - 1), random.randrange(1, 8))
        if random.random() < 0.3:
            message.oneof_decl.add(name="o")
        optional: list[Any] = []
        for position, own in enumerate(numbers):
            name = f"f{position}"
            if random.random() < 0.2:
                self._map(message, name, own, number)
                continue
            field = message.field.add(name=name, number=own, label=_OPTIONAL)
            self._type(field, number)
            chance = random.random()
            if chance < 0.3:
                field.label = _REPEATED
                if self.syntax != "editions" and field.type not in (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE):
                    field.options.packed = random.random() < 0.5
            elif message.oneof_decl and chance < 0.7:
                field.oneof_index = 0
            elif self.syntax == "proto2" and chance < 0.8:
                field.label = _REQUIRED
            elif self.syntax == "proto3" and chance < 0.6:
                optional.append(field)
            elif self.syntax == "editions" and field.type != F.TYPE_MESSAGE and chance < 0.6:
                closed = field.type == F.TYPE_ENUM
                field.options.features.field_presence = random.choice((3,) if closed else (2, 3))
            if self.syntax == "editions" and field.type == F.TYPE_MESSAGE and random.random() < 0.3:
                field.options.features.message_encoding = descriptor_pb2.FeatureSet.DELIMITED
        if message.oneof_decl and not any(field.HasField("oneof_index") for field in message.field):
            del message.oneof_decl[:]
        for field in optional:  # synthetic oneofs are the last ones
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _type(self, field: Any, number: int) -> None:
        random = self._random
        chance = random.random()
        if chance < 0.15:
            field.type, field.type_name = F.TYPE_ENUM, f".t.E{random.randrange(self._enums)}"
        elif chance < 0.35 and number + 1 < self._count:
            field.type, field.type_name = F.TYPE_MESSAGE, f".t.M{random.randrange(number + 1, self._count)}"
        elif chance < 0.5 and self._known:
            field.type, field.type_name = F.TYPE_MESSAGE, f".{random.choice(_KNOWN)}"
        else:
            field.type = random.choice(_SCALARS)

    def _map(self, message: Any, name: str, number: int, level: int) -> None:
        entry = message.nested_type.add(name=f"{name.upper()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_OPTIONAL, type=self._random.choice(_KEYS))
        value = entry.field.add(name="value", number=2, label=_OPTIONAL)
        self._type(value, level)
        if value.type == F.TYPE_ENUM:  # without a value Google's library has 0, though it is not the enum's first
            value.type_name = ".t.E0"
        message.field.add(
            name=name, number=number, label=_REPEATED, type=F.TYPE_MESSAGE, type_name=f".t.{message.name}.{entry.name}"
        )

    # -- values

    def value(self) -> Any:
        """A random message."""
        message = self.type()
        self._fill(message)
        return message

    def _fill(self, message: Any) -> None:
        random = self._random
        for field in message.DESCRIPTOR.fields:
            if not field.is_required and random.random() < 0.25:
                continue
            if _is_map(field):
                entries = getattr(message, field.name)
                for _ in range(random.choice((0, 1, 2, 12))):
                    key = self._scalar(field.message_type.fields_by_name["key"])
                    if field.message_type.fields_by_name["value"].message_type is not None:
                        self._fill_message(entries[key])
                    else:
                        entries[key] = self._scalar(field.message_type.fields_by_name["value"])
            elif field.is_repeated:
                items = getattr(message, field.name)
                for _ in range(random.choice((0, 1, 2, 5))):
                    if field.message_type is not None:
                        self._fill_message(items.add())
                    else:
                        items.append(self._scalar(field))
            elif field.message_type is not None:
                inner = getattr(message, field.name)
                inner.SetInParent()
                self._fill_message(inner)
            else:
                setattr(message, field.name, self._scalar(field))

    def _fill_message(self, message: Any) -> None:
        random, name = self._random, message.DESCRIPTOR.full_name
        if name == "google.protobuf.Timestamp":
            message.seconds, message.nanos = (
                random.choice((0, 1, 1_700_000_000, -62_135_596_800, 253_402_300_799)),
                1000,
            )
        elif name == "google.protobuf.Duration":
            sign = random.choice((-1, 1))
            message.seconds, message.nanos = sign * random.choice((0, 1, 315_576_000_000)), sign * 999_999_000
        elif name in _DOCUMENTS:
            json_format.ParseDict(self._document(name), message)
        else:
            self._fill(message)

    def _document(self, name: str, depth: int = 2) -> Any:
        random = self._random
        if name.endswith("Struct"):
            return {random.choice(_TEXTS): self._document("Value", depth - 1) for _ in range(random.randrange(3))}
        if name.endswith("ListValue"):
            return [self._document("Value", depth - 1) for _ in range(random.randrange(3))]
        if depth > 0 and random.random() < 0.5:
            return self._document(random.choice(("Struct", "ListValue")), depth)
        return random.choice((None, True, False, 0, -1.5, 1e300, 2**40, *_TEXTS))

    def _scalar(self, field: Any) -> Any:
        random = self._random
        match field.type:
            case F.TYPE_BOOL:
                return random.random() < 0.5
            case F.TYPE_STRING:
                return random.choice(_TEXTS)
            case F.TYPE_BYTES:
                return random.randbytes(random.choice((0, 1, 7, 20)))
            case F.TYPE_DOUBLE | F.TYPE_FLOAT:
                return random.choice((0.0, -0.0, 1.5, -2.25, math.inf, math.nan, 1024.0))
            case F.TYPE_ENUM:
                if not field.enum_type.is_closed and random.random() < 0.2:
                    return random.choice((9, -9))
                return random.choice(field.enum_type.values).number
            case F.TYPE_INT32 | F.TYPE_SINT32 | F.TYPE_SFIXED32:
                return random.choice((0, 1, -1, 127, 128, 2**31 - 1, -(2**31)))
            case F.TYPE_UINT32 | F.TYPE_FIXED32:
                return random.choice((0, 1, 127, 128, 2**31, 2**32 - 1))
            case F.TYPE_UINT64 | F.TYPE_FIXED64:
                return random.choice((0, 1, 127, 128, 2**63, 2**64 - 1))
        return random.choice((0, 1, -1, 127, 128, 2**63 - 1, -(2**63)))


# -- the oracle


def has_unknown_entries(message: Any) -> bool:
    """Whether the library took a map's entry for an unknown field, here or below: it does so if the entry has unknown
    fields itself, which Java, C++ and the decoders skip."""
    maps = {field.number for field in message.DESCRIPTOR.fields if _is_map(field)}
    if any(unknown.field_number in maps for unknown in UnknownFieldSet(message)):
        return True
    below: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if _is_map(field):
            below += value.values() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            below += value if field.is_repeated else [value]
    return any(map(has_unknown_entries, below))


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def expected(message: Any) -> dict[str, Any]:
    """What the columns of a message of Google's must be, as `flat` has it."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            key, own = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            pairs = [(_one(key, each), _one(own, value[each])) for each in value]
            row[field.name] = sorted(pairs, key=repr)
        elif field.is_repeated:
            row[field.name] = [_one(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _one(field, value)
    return row


def _one(field: Any, value: Any) -> Any:
    if field.type == F.TYPE_ENUM:
        symbol = field.enum_type.values_by_number.get(value)
        return str(value) if symbol is None else symbol.name
    if field.message_type is None:
        return _plain(field.type, value)
    name = field.message_type.full_name
    if name in _TIMES:
        micros = value.seconds * 1_000_000 + value.nanos // 1000
        assert value.nanos % 1000 == 0
        return micros
    if name in _WRAPPERS:
        return _plain(value.DESCRIPTOR.fields[0].type, value.value)
    if name in _DOCUMENTS:
        return json.loads(json_format.MessageToJson(value), parse_float=float, parse_int=float)
    if not field.message_type.fields:
        return True
    return expected(value)


def _plain(kind: int, value: Any) -> Any:
    if kind in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return decimal.Decimal(value)
    return repr(value) if isinstance(value, float) else value


def flat(rows: pa.Array, descriptor: Any) -> list[Any]:
    """Rows as Python values to compare: maps sorted, floats as text, instants as microseconds, JSON parsed."""
    return [None if row is None else _flat_row(row, descriptor) for row in _numbers(rows).to_pylist()]


def _numbers(rows: pa.Array) -> pa.Array:
    """Timestamps as numbers: Python's have no year 10,000 and no microsecond lost."""
    return rows.cast(_without_times(rows.type))


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _without_times(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _without_times(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return kind


def _flat_row(row: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in descriptor.fields:
        value = row[field.name]
        if _is_map(field):
            own = field.message_type.fields_by_name["value"]
            found[field.name] = sorted(((key, _flat_one(each, own)) for key, each in value), key=repr)
        elif field.is_repeated:
            found[field.name] = [_flat_one(each, field) for each in value]
        else:
            found[field.name] = None if value is None else _flat_one(value, field)
    return found


def _flat_one(value: Any, field: Any) -> Any:
    if field.message_type is not None and field.message_type.full_name in _DOCUMENTS:
        return json.loads(value, parse_int=float)
    if isinstance(value, dict):
        return _flat_row(value, field.message_type)
    return repr(value) if isinstance(value, float) else value
