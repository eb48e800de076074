"""Registered schemas of all three types: the columns that they give, one decoder for each, and what differs."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kseg.client.registry.schemas import Resolved, Schema
from kseg.etl.decoding.registered import differences, registered_decoder, registered_type
from kseg.segment_reader.payload.ddl import parse_type
from kseg.segment_reader.payload.errors import PayloadSchemaError

CUSTOMER = '{"type": "record", "name": "n.C", "fields": [{"name": "name", "type": "string"}]}'
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "n.C"]}],
}
JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}},
}
PROTO = 'syntax = "proto3"; import "customer.proto"; message Order { int64 id = 1; Customer customer = 2; }'
SCHEMAS = {
    "AVRO": Resolved(Schema(json.dumps(AVRO)), (("n.C", Schema(CUSTOMER)),)),
    "JSON": Resolved(
        Schema(json.dumps(JSON), "JSON"),
        (("customer.json", Schema('{"type": "object", "properties": {"name": {"type": "string"}}}', "JSON")),),
    ),
    "PROTOBUF": Resolved(
        Schema(PROTO, "PROTOBUF"),
        (("customer.proto", Schema('syntax = "proto3"; message Customer { string name = 1; }', "PROTOBUF")),),
    ),
}
PAYLOADS = {
    "AVRO": b"\x0e\x02\x06ann",
    "JSON": b'{"id": 7, "customer": {"name": "ann"}}',
    "PROTOBUF": b"\x08\x07\x12\x05\x0a\x03ann",
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_each_type_with_its_references_gives_columns_and_a_decoder(kind: str) -> None:
    expected = parse_type("struct<id: bigint, customer: struct<name: string>>")
    assert registered_type(SCHEMAS[kind]).equals(expected)
    decoded = registered_decoder(SCHEMAS[kind]).decode(pa.array([PAYLOADS[kind], b"\xff"]))
    row = decoded.rows[0].as_py()
    assert (row["id"], row["customer"]["name"]) == (7, "ann")
    assert decoded.rows[1].as_py() is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [("AVRO", "{"), ("AVRO", '"null"'), ("JSON", '{"type": "string"}'), ("PROTOBUF", "message {")],
)
def test_a_schema_without_columns(kind: str, text: str) -> None:
    with pytest.raises(PayloadSchemaError):
        registered_type(Resolved(Schema(text, kind)))


@pytest.mark.parametrize(
    ("before", "after", "added", "missing", "changed"),
    [
        ("struct<a: int, b: int>", "struct<b: int, a: int>", [], [], []),
        ("struct<a: int>", "struct<a: int, b: array<int>>", ["b"], [], []),
        ("struct<a: int, b: int>", "struct<b: int>", [], ["a"], []),
        ("struct<a: bigint>", "struct<a: int>", [], [], []),
        ("struct<a: int>", "struct<a: bigint>", [], [], ["a"]),
        ("struct<a: array<struct<x: int>>>", "struct<a: array<struct<x: string, y: int>>>", ["a[].y"], [], ["a[].x"]),
        (
            "struct<m: map<string,struct<x: int, `o k`: int>>>",
            "struct<m: map<string,struct<x: int>>>",
            [],
            ["m{}.`o k`"],
            [],
        ),
        ("struct<a: struct<x: int>>", "struct<a: string>", [], [], ["a"]),
    ],
)
def test_differences_of_types(before: str, after: str, added: Any, missing: Any, changed: Any) -> None:
    found = differences(parse_type(before), parse_type(after))
    assert [path for path, _ in found.added] == added
    assert list(found.missing) == missing
    assert [path for path, _, _ in found.changed] == changed
