"""The step that decodes: typed columns, Kafka's own under `_kseg_…`, names that a table can have."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import KSEG_ADDRESS
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tasks.error_json import error_document, error_of_document
from kseg.etl.transform.decode import DecodeStep, decode_step
from kseg.segment_reader.payload.protobuf.compiler import compile_text

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}
ORDER = {"format": "json", "schema": {"columns": {"id": "bigint", "offset": "bigint", "items": "array<struct<n:int>>"}}}


def step_of(**decode: Any) -> DecodeStep:
    return decode_step(Decode.model_validate(decode))


def batch(*pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    rows = [
        {
            "key": key,
            "value": value,
            "topic": "orders",
            "partition": 1,
            "offset": 5 + number,
            "timestamp": number,
            "timestampType": 0,
            "_kseg_topic": "orders",
            "_kseg_partition": 1,
            "_kseg_offset": 5 + number,
        }
        for number, (key, value) in enumerate(pairs)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def applied(step: DecodeStep, *pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    out = pickle.loads(pickle.dumps(step)).apply(batch(*pairs), ADDRESS)
    assert out.schema == step.output_schema(ROWS)
    out.validate(full=True)
    return out


def faults(step: DecodeStep) -> str:
    with pytest.raises(ConfigurationError) as caught:
        step.output_schema(ROWS)
    return "\n".join(str(fault) for fault in caught.value.faults)


def test_fields_become_columns_and_kafka_s_own_columns_have_the_prefix() -> None:
    step = step_of(key={"format": "string", "as": "customer"}, value=ORDER, keep=["timestamp"])
    document = {"id": 2**53 + 1, "offset": 99, "items": [{"n": 1}], "unknown": True}
    out = applied(step, (b"ann", json.dumps(document).encode()), (None, None))
    assert out.to_pylist() == [
        {
            "customer": "ann",
            "id": 2**53 + 1,
            "offset": 99,
            "items": [{"n": 1}],
            "_kseg_timestamp": out.column("_kseg_timestamp")[0].as_py(),
            "_kseg_topic": "orders",
            "_kseg_partition": 1,
            "_kseg_offset": 5,
        },
        {
            **dict.fromkeys(("customer", "id", "offset", "items")),
            "_kseg_timestamp": out.column("_kseg_timestamp")[1].as_py(),
            "_kseg_topic": "orders",
            "_kseg_partition": 1,
            "_kseg_offset": 6,
        },
    ]


def test_a_payload_s_own_address_is_never_taken_for_the_row_s() -> None:
    columns = {"topic": "string", "partition": "int", "offset": "bigint"}
    step = step_of(value={"format": "json", "schema": {"columns": columns}})
    schema = sink_schema(step.output_schema(ROWS), decoded=True)
    assert schema.address == KSEG_ADDRESS
    assert schema.check_address is None
    assert schema.columns.names == [*columns, *KSEG_ADDRESS, "_kseg_run"]


def test_what_is_kept_can_be_landed() -> None:
    keep = ["key", "value", "headers", "timestamp", "timestampType"]
    step = step_of(key={"format": "long", "as": "id"}, keep=keep)
    rows = DecodeOptions(addresses=True, provenance=True, marks_late=True).schema
    names = sink_schema(step.output_schema(rows), decoded=True, late=True).columns.names
    assert {f"_kseg_{name}" for name in keep} | {"_kseg_late", "_kseg_leaderEpoch", "_kseg_file"} <= set(names)


def test_a_struct_stays_one_column_and_a_tombstone_can_be_dropped() -> None:
    step = step_of(value={**ORDER, "into": "struct", "as": "order", "tombstones": "drop"})
    out = applied(step, (None, b'{"id": 1}'), (b"k", None))
    assert out.column("order").to_pylist() == [{"id": 1, "offset": None, "items": None}]
    assert out.column("_kseg_offset").to_pylist() == [5]


def test_numbers_of_kafka_s_serializers_are_read() -> None:
    step = step_of(key={"format": "int"}, value={"format": "double", "as": "price"})
    out = applied(step, (struct.pack(">i", -7), struct.pack(">d", 1.5)))
    assert (out.column("key").to_pylist(), out.column("price").to_pylist()) == ([-7], [1.5])


def test_avro_by_a_file_s_schema_is_read() -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    step = step_of(value={"format": "avro", "schema": {"file": "/x.avsc", "text": json.dumps(schema)}})
    assert applied(step, (None, b"\x0a")).column("id").to_pylist() == [5]


def test_the_first_payload_that_cannot_be_decoded_is_an_error_with_its_address() -> None:
    step = step_of(value=ORDER)
    with pytest.raises(UndecodablePayload) as caught:
        applied(step, (None, b'{"id": 1}'), (None, b'{"items": [{"n": 1}, {"n": "x"}]}'))
    error = caught.value
    assert (error.address["topic"], error.address["partition"], error.address["offset"]) == ("orders", 1, 6)
    assert (error.code, error.status, error.path) == ("payload-undecodable", "WRONG_TYPE", "items[1].n")
    assert "abandoned by itself" in str(error.remedy)
    assert "decode.on_error: dead_letter" in str(error.remedy)
    assert not error.retriable
    again = error_of_document(error_document(error))
    assert type(again) is UndecodablePayload
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("decode", "remedy"),
    [
        ({"value": {**ORDER, "rename": {"id": "a b"}}}, "write rename: {'id': another_name}"),
        ({"value": {"format": "string", "as": "a b"}}, "write as: another_name for the value"),
        (
            {"value": {"format": "json", "schema": {"columns": {"s": "array<struct<`a b`:int>>"}}}},
            "leave the field out of the schema, or write format: bytes for the value",
        ),
        (
            {"key": {"format": "string", "as": "_kseg_x"}, "value": {"format": "string"}},
            "write as: another_name for the key",
        ),
        (
            {"key": {"format": "string", "as": "ID"}, "value": ORDER},
            "write rename: {'id': another_name}, or choose into: struct",
        ),
    ],
)
def test_a_name_that_no_table_can_have_is_refused_with_a_remedy_that_helps(decode: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        step_of(**decode).output_schema(ROWS)
    assert [fault.remedy for fault in refused.value.faults] == [remedy]


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({"key": {"format": "string", "as": "ID"}, "value": ORDER}, "columns ID and id are one name to Delta"),
        ({"value": {"format": "string", "as": "_kseg_x"}}, "names that begin with _kseg_ are Kafka's own columns"),
        ({"value": {**ORDER, "rename": {"nope": "x"}}}, "names the field nope, which the schema does not have"),
        ({"value": {**ORDER, "rename": {"id": "a b"}}}, "Parquet names hold none of"),
        (
            {"value": {"format": "json", "schema": {"columns": {"s": "struct<a:int,A:int>"}}}},
            "fields a and A of s are one name to Delta",
        ),
        ({"value": {"format": "json", "schema": {"columns": {"s": "varint"}}}}, "decode.value.schema"),
    ],
)
def test_what_no_table_can_have_is_refused_before_anything_is_read(decode: dict[str, Any], said: str) -> None:
    assert said in faults(step_of(**decode))


def test_types_that_delta_does_not_have_are_refused(tmp_path: Path) -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    fields = [
        {"name": "a", "type": "null"},
        {"name": "b", "type": {"type": "array", "items": ["null", empty]}},
        {"name": "c", "type": {"type": "map", "values": "int"}},
    ]
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    said = faults(step_of(value={"format": "avro", "schema": {"file": str(file)}}))
    assert "column a has the type null, which Delta does not have" in said
    assert "column b[] has a record without fields, which Parquet cannot hold" in said
    assert "column c" not in said


def test_a_name_that_collides_can_be_renamed() -> None:
    step = step_of(key={"format": "string", "as": "id"}, value={**ORDER, "rename": {"id": "order_id"}})
    assert step.output_schema(ROWS).names[:2] == ["id", "order_id"]


def test_protobuf_becomes_columns_by_text_or_descriptors(tmp_path: Path) -> None:
    text = 'syntax = "proto3"; package shop; message Order { int64 id = 1; optional string note = 2; } message Other {}'
    (tmp_path / "order.proto").write_text(text)
    (tmp_path / "order.desc").write_bytes(compile_text(text))
    for name in ("order.proto", "order.desc"):
        schema = {"file": str(tmp_path / name)}
        step = step_of(value={"format": "protobuf", "schema": schema, "message": "shop.Order"})
        rows = applied(step, (None, b"\x08\x05"), (None, None), (None, b"\x12\x01x")).to_pylist()
        assert [(row["id"], row["note"]) for row in rows] == [(5, None), (None, None), (0, "x")]
        with pytest.raises(UndecodablePayload, match=r"the value at note cannot be decoded \(TRUNCATED\)"):
            step.apply(batch((None, b"\x12\x05x")), ADDRESS)
        other = step_of(value={"format": "protobuf", "schema": schema})
        assert "which message is it? The file has shop.Order, shop.Other" in faults(other)


def test_a_file_that_is_no_protobuf_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "record"}')
    step = step_of(value={"format": "protobuf", "schema": {"file": str(tmp_path / "order.avsc")}})
    assert "give a .proto file" in faults(step)
