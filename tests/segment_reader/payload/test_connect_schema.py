"""Kafka Connect's schemas as types, and a message's schema beside the declared one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.connect_schema import contradiction, read_connect_schema
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.errors import InvalidSchema, PayloadSchemaError, UnsupportedSchema
from kseg.segment_reader.payload.json.shape import JsonOptions, shape_of

CONNECT = "org.apache.kafka.connect.data."
DEBEZIUM = "io.debezium.time."
UTC, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


def decimal(scale: int, **more: str) -> dict[str, Any]:
    return {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": str(scale), **more}}


def struct(**fields: Any) -> dict[str, Any]:
    listed = [
        {"field": name, "optional": True, **({"type": each} if isinstance(each, str) else each)}
        for name, each in fields.items()
    ]
    return {"type": "struct", "fields": listed, "optional": False}


@pytest.mark.parametrize(
    ("schema", "kind", "format"),
    [
        ({"type": "int8"}, pa.int8(), None),
        ({"type": "int16"}, pa.int16(), None),
        ({"type": "int32"}, pa.int32(), None),
        ({"type": "int64"}, pa.int64(), None),
        ({"type": "float"}, pa.float32(), None),
        ({"type": "double"}, pa.float64(), None),
        ({"type": "boolean"}, pa.bool_(), None),
        ({"type": "string"}, pa.string(), None),
        ({"type": "bytes"}, pa.binary(), None),
        (decimal(2), pa.decimal128(38, 2), "base64"),
        (decimal(2, **{"connect.decimal.precision": "10"}), pa.decimal128(10, 2), "base64"),
        (decimal(-1), pa.binary(), None),
        (decimal(2, **{"connect.decimal.precision": "65"}), pa.binary(), None),
        ({"type": "int32", "name": CONNECT + "Date"}, pa.date32(), "epoch_days"),
        ({"type": "int32", "name": CONNECT + "Time"}, pa.int32(), None),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, UTC, "epoch_millis"),
        ({"type": "int32", "name": DEBEZIUM + "Date"}, pa.date32(), "epoch_days"),
        ({"type": "int64", "name": DEBEZIUM + "Timestamp"}, LOCAL, "epoch_millis"),
        ({"type": "int64", "name": DEBEZIUM + "MicroTimestamp"}, LOCAL, "epoch_micros"),
        ({"type": "int64", "name": DEBEZIUM + "NanoTimestamp"}, pa.int64(), None),
        ({"type": "int32", "name": DEBEZIUM + "Time"}, pa.int32(), None),
        ({"type": "int64", "name": DEBEZIUM + "MicroTime"}, pa.int64(), None),
        ({"type": "string", "name": DEBEZIUM + "ZonedTimestamp"}, UTC, "iso8601"),
        ({"type": "string", "name": "io.debezium.data.Json"}, pa.string(), None),
        ({"type": "string", "name": CONNECT + "Date"}, pa.string(), None),
        ({"type": "array", "items": {"type": "int32"}}, pa.list_(pa.int32()), None),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
            pa.map_(pa.string(), pa.int64()),
            None,
        ),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int64"}}, pa.string(), "json"),
    ],
)
def test_a_schema_has_a_type_and_a_format(schema: dict[str, Any], kind: pa.DataType, format: str | None) -> None:
    found = read_connect_schema(json.dumps(schema))
    assert (found.type, found.format) == (kind, format)


def test_formats_are_those_of_paths_below() -> None:
    days = {"type": "int32", "name": CONNECT + "Date"}
    item = struct(**{"a b": days, "price": decimal(2), "n": "int32"})
    found = read_connect_schema(json.dumps({"schema": struct(items={"type": "array", "items": item}), "payload": {}}))
    assert dict(found.formats()) == {"items[].`a b`": "epoch_days", "items[].price": "base64"}
    assert found.type.field("items").type.value_type.names == ["a b", "price", "n"]


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("{", InvalidSchema, ""),
        ("[]", InvalidSchema, ""),
        ('{"type": "record"}', InvalidSchema, ""),
        ('{"type": ["int32"]}', InvalidSchema, ""),
        ('{"type": "struct"}', InvalidSchema, ""),
        (json.dumps(struct(a={"type": "array"})), InvalidSchema, "a[]"),
        (json.dumps(struct(a={"type": "bytes", "name": CONNECT + "Decimal"})), InvalidSchema, "a"),
        ('{"type": "array", "items": ' * 150 + '{"type": "int32"}' + "}" * 150, UnsupportedSchema, "[]" * 100),
        ('{"a": ' * 50_000, InvalidSchema, ""),
    ],
)
def test_what_is_no_schema_is_refused(text: str, error: type[PayloadSchemaError], place: str) -> None:
    with pytest.raises(error) as caught:
        read_connect_schema(text)
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("written", "declared", "format", "agrees"),
    [
        ("int32", "bigint", None, True),
        ("int64", "smallint", None, True),
        ("int64", "decimal(20,2)", None, True),
        ("string", "bigint", None, False),
        ("int64", "string", None, False),
        ("boolean", "int", None, False),
        ("int64", "string", "json", True),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, "bigint", None, True),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, "timestamp", None, True),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, "timestamp", "epoch_micros", False),
        ({"type": "int64", "name": DEBEZIUM + "MicroTimestamp"}, "timestamp_ntz", None, False),
        ({"type": "int64", "name": DEBEZIUM + "MicroTimestamp"}, "timestamp_ntz", "epoch_micros", True),
        ({"type": "int64", "name": DEBEZIUM + "MicroTimestamp"}, "timestamp", "epoch_micros", False),
        ({"type": "string", "name": DEBEZIUM + "ZonedTimestamp"}, "timestamp", "iso8601", True),
        ({"type": "string", "name": DEBEZIUM + "ZonedTimestamp"}, "timestamp", None, False),
        ("string", "timestamp", "iso8601", True),
        ("int64", "timestamp", None, True),
        ("int64", "timestamp", "iso8601", False),
        (decimal(2), "decimal(12,2)", None, True),
        (decimal(2), "decimal(12,4)", None, False),
        (decimal(2), "binary", None, True),
        ("bytes", "decimal(12,2)", None, False),
        ({"type": "array", "items": {"type": "string"}}, "array<int>", None, False),
        ({"type": "array", "items": {"type": "int32"}}, "map<string,int>", None, False),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, "map<string,int>", None, False),
        ({"type": "array", "items": {"type": "int32"}}, "bigint", None, False),
        ({"type": "bytes", "name": CONNECT + "Decimal"}, "decimal(12,2)", None, False),
        ({"type": "bytes", "name": CONNECT + "Decimal"}, "binary", None, True),
        ({"type": "nothing-known"}, "bigint", None, False),
        ({"type": "struct"}, "struct<x: int>", None, False),
        (struct(x="string"), "struct<x: int>", None, False),
        (struct(y="string"), "struct<x: int>", None, True),
    ],
)
def test_a_message_s_schema_agrees_with_the_declared_one_or_not(
    written: Any, declared: str, format: str | None, agrees: bool
) -> None:
    formats = {"f": format} if format else {}
    options = JsonOptions(timestamp_format="epoch_millis", date_format="epoch_days", formats=formats)
    found = contradiction(json.dumps(struct(f=written)), shape_of(parse_columns({"f": declared}), options))
    assert (found is None) == agrees, found
    if found is not None:
        assert found.place.startswith("f")


UNREADABLE = {
    "a map with other keys": {"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}},
    "a decimal without a scale": {"type": "bytes", "name": CONNECT + "Decimal"},
    "a type that nobody knows": {"type": "uint8"},
    "no type": {},
    "a struct without fields": {"type": "struct"},
    "a deep one": struct(below={"type": "array", "items": {"type": "uint8"}}),
}


@pytest.mark.parametrize("kind", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("declared", ["nowhere", "as-text"])
@pytest.mark.parametrize("at", ["top", "struct", "array", "map"])
def test_only_what_both_have_is_compared(kind: dict[str, Any], declared: str, at: str) -> None:
    """A field that is not declared, or is declared as JSON text, may be anything."""
    columns, schema, path = (
        "id: bigint, f: string" if declared == "as-text" else "id: bigint",
        struct(id="int64", f=kind),
        "",
    )
    if at != "top":
        columns = {"struct": "struct<{}>", "array": "array<struct<{}>>", "map": "map<string,struct<{}>>"}[at].format(
            columns
        )
        parts = {"array": {"items": schema}, "map": {"keys": {"type": "string"}, "values": schema}}
        schema = struct(of={"type": at, **parts[at]} if at in parts else schema)
        path = "of." if at == "struct" else "of[]."
    formats = {f"{path}f": "json"} if declared == "as-text" else {}
    given = {"of": columns} if at != "top" else dict(part.split(": ") for part in columns.split(", "))
    shape = shape_of(parse_columns(given), JsonOptions(formats=formats))
    assert contradiction(json.dumps(schema), shape) is None
