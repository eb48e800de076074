"""Fields of Protobuf that a table lacks, as JSON text: what Google's library says is written, exactly."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor as F
from hypothesis import given
from hypothesis import strategies as st

from json_numbers import read, same
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.formats.registry import kept_text
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.row_schema import Array, Map, RowRecord, RowType
from protobuf_schemas import Schemas

RESCUED = "_kseg_rescued"
NOTHING = object()


def whole(field: Any, value: Any) -> Any:
    if field.type == F.TYPE_ENUM:
        symbol = field.enum_type.values_by_number.get(value)
        return str(value) if symbol is None else symbol.name
    if field.message_type is None:
        if field.type == F.TYPE_FLOAT:
            return np.float32(value)
        return base64.b64encode(value).decode() if field.type == F.TYPE_BYTES else value
    name = field.message_type.full_name
    match name.removeprefix("google.protobuf."):
        case "Timestamp":
            at = datetime(1970, 1, 1) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
            return f"{at.isoformat()}Z"
        case "Duration":
            return value.seconds * 1_000_000 + int(value.nanos / 1000)
        case "Struct" | "Value" | "ListValue":
            return json.loads(json_format.MessageToJson(value), parse_int=float, parse_float=float)
        case wrapper if wrapper.endswith("Value") and wrapper != name:
            return whole(value.DESCRIPTOR.fields[0], value.value)
    if not field.message_type.fields:
        return True
    return {own.name: each for own in value.DESCRIPTOR.fields if (each := member(value, own)) is not NOTHING}


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def member(message: Any, field: Any) -> Any:
    """A field's value; NOTHING where it is not written."""
    if field.number not in {own.number for own, _ in message.ListFields()}:
        return NOTHING
    value = getattr(message, field.name)
    if is_map(field):
        own = field.message_type.fields_by_name["value"]
        return {key_text(key): whole(own, value[key]) for key in value}
    return [whole(field, each) for each in value] if field.is_repeated else whole(field, value)


def key_text(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool) else str(key)


def unknown(message: Any, writer: RowRecord, reader: RowRecord) -> Any:
    kept = {field.number: field.type for field in reader.fields}
    found: dict[str, Any] = {}
    for column in writer.fields:
        field = message.DESCRIPTOR.fields_by_name[column.name]
        if column.number not in kept:
            part = member(message, field)
        elif field.number not in {own.number for own, _ in message.ListFields()}:
            part = NOTHING
        else:
            part = part_of(getattr(message, field.name), column.type, kept[column.number])
        if part is not NOTHING:
            found[column.name] = part
    return found or NOTHING


def part_of(value: Any, writer: RowType, reader: RowType) -> Any:
    match writer, reader:
        case RowRecord(), RowRecord():
            return unknown(value, writer, reader)
        case Array(RowRecord() as item), Array(RowRecord() as kept):
            parts = [unknown(each, item, kept) for each in value]
            while parts and parts[-1] is NOTHING:
                parts.pop()
            return [None if part is NOTHING else part for part in parts] or NOTHING
        case Map(_, RowRecord() as item), Map(_, RowRecord() as kept):
            found = {key_text(key): unknown(value[key], item, kept) for key in value}
            return {key: part for key, part in found.items() if part is not NOTHING} or NOTHING
    return NOTHING


def reduced(kind: RowType, random: Random) -> Any:
    match kind:
        case RowRecord(fields):
            kept = [field for field in fields if random.random() < 0.6] or fields[:1]
            return RowRecord(tuple(replace(field, type=reduced(field.type, random)) for field in kept))
        case Array(items):
            return Array(reduced(items, random))
        case Map(keys, values):
            return Map(keys, reduced(values, random))
    return kind


@given(st.integers(0, 2**64))
def test_what_the_table_lacks_is_what_is_written(seed: int) -> None:
    random = Random(seed)
    schemas = Schemas(random)
    text = base64.b64encode(schemas.descriptors().SerializeToString()).decode()
    form = ProtobufSchemas("t.M0", rescue=True)
    columns = form.writer(text).columns
    reader = reduced(columns, random)
    messages = [schemas.value() for _ in range(6)]
    place = len(schemas.file.message_type) - 1
    frame = b"\0\0\0\0\1" + (b"\0" if place == 0 else bytes([2, 2 * place]))
    payloads = pa.array([*(frame + each.SerializeToString() for each in messages), None], pa.binary())
    framed = FramedSchemas(form.text(reader), ((1, (text, ())),), form)
    fast, plain = (FramedDecoder(framed, engine).decode(payloads, None, "value") for engine in ("fast", "reference"))
    fast.rows.validate(full=True)
    assert fast.status.tolist() == plain.status.tolist() == [Status.DECODED] * 6 + [Status.NULL]
    for rows in (fast.rows, plain.rows):
        *texts, of_null = rows.field(RESCUED).to_pylist()
        assert of_null is None
        for message, found in zip(messages, texts, strict=True):
            expected = unknown(message, columns, reader)
            assert found is None if expected is NOTHING else same(read(found), expected), (found, expected)


def test_fields_are_the_same_by_number_and_named_as_their_schema_has_them() -> None:
    schemas = {
        1: "message Order { int64 id = 1; string note = 2; }",
        2: """
            message Order {
              int64 id = 1; string remark = 2; optional int32 zero = 3; int32 plain = 4; repeated int64 many = 5;
              uint64 note = 6; oneof o { string a = 7; bytes b = 8; } google.protobuf.Value any = 9;
            }""",
    }
    head = 'syntax = "proto3"; import "google/protobuf/struct.proto"; '
    kept = {key: kept_text("protobuf", head + text, {}) for key, text in schemas.items()}
    form = ProtobufSchemas("Order", rescue=True)
    reader = form.text(form.first(form.writer(*kept[1])))
    framed = FramedSchemas(reader, tuple(kept.items()), form)
    newer = form.writer(*kept[2])
    assert form.unknown(newer, form.reader(reader)) == ("zero", "plain", "many", "note", "a", "b", "any")
    payloads = {
        b"\x08\x01\x12\x01n": None,  # of the first schema
        b"\x08\x02\x12\x01r": None,
        b"\x18\0\x20\0": '{"zero":0}',
        b"\x20\x07\x28\xff\xff\xff\xff\xff\xff\xff\xff\x7f": '{"plain":7,"many":[9223372036854775807]}',
        b"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": '{"note":18446744073709551615}',
        b"\x42\x01\xff": '{"b":"/w=="}',
        b"\x4a\x02\x08\0": '{"any":null}',
        b"\x98\x06\x01": None,  # field 99, which the record's own schema does not have
    }
    data = [b"\0\0\0\0\2\0" + one for one in payloads]
    data[0] = b"\0\0\0\0\1\0" + next(iter(payloads))
    for engine in ("fast", "reference"):
        rows = FramedDecoder(framed, engine).decode(pa.array(data, pa.binary()), None, "value").rows
        assert rows.field(RESCUED).to_pylist() == [*payloads.values()]
        assert rows.field("note").to_pylist()[:2] == ["n", "r"]
