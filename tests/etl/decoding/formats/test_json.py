"""Formats that are JSON, and envelopes, from the job file's section to rows."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.errors import UndecodablePayload
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.transform.decode import DecodeStep, decode_step

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}
OURS = ["_kseg_op", "_kseg_source_ts", "_kseg_connector_ts"]
COLUMNS = {"columns": {"id": "bigint", "amount": "decimal(10,2)"}}
ROW = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {
            "field": "amount",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
    ],
}
ENVELOPE = {
    "type": "struct",
    "fields": [
        {**ROW, "field": "before"},
        {**ROW, "field": "after"},
        {"field": "source", "type": "struct", "fields": [{"field": "ts_ms", "type": "int64"}]},
        {"field": "op", "type": "string"},
    ],
}


def step_of(**value: Any) -> DecodeStep:
    return decode_step(Decode.model_validate({"value": value}))


def applied(step: DecodeStep, *values: Any) -> list[dict[str, Any]]:
    rows = [
        {"topic": "orders", "partition": 1, "offset": 5 + number, "value": value and json.dumps(value).encode()}
        for number, value in enumerate(values)
    ]
    out = pickle.loads(pickle.dumps(step)).apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS)
    assert out.schema == step.output_schema(ROWS)
    out.validate(full=True)
    sink_schema(out.schema, decoded=True)
    return [{k: v for k, v in row.items() if not k.startswith("_kseg_") or k == "_kseg_op"} for row in out.to_pylist()]


def test_connect_json_is_read_by_columns_or_by_a_schema(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(ROW))
    message = {"schema": ROW, "payload": {"id": 1, "amount": "AfQ="}}
    for schema in (COLUMNS, {"file": str(file)}):
        step = step_of(format="connect_json", schema=schema)
        assert applied(step, message, None) == [
            {"id": 1, "amount": Decimal("5.00")},
            {"id": None, "amount": None},
        ]


def test_json_schema_gives_the_columns(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    properties = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"}, "any": {}}
    file.write_text(json.dumps({"type": "object", "properties": properties}))
    step = step_of(format="json_schema", schema={"file": str(file)}, unknown_fields="rescue")
    out = step.output_schema(ROWS)
    assert out.names[:4] == ["id", "at", "any", "_kseg_rescued"]
    assert applied(step, {"id": 1, "any": [2]})[0]["any"] == "[2]"


@pytest.mark.parametrize("by_file", [False, True])
def test_debezium_s_changes_are_rows(tmp_path: Path, by_file: bool) -> None:
    file = tmp_path / "envelope.json"
    file.write_text(json.dumps(ENVELOPE))
    step = step_of(
        format="connect_json",
        schema={"file": str(file)} if by_file else COLUMNS,
        envelope="debezium",
        rename={"id": "order_id"},
    )
    assert [name for name in step.output_schema(ROWS).names if name in OURS] == OURS
    row = {"id": 1, "amount": "AfQ="}
    deleted = {"schema": ENVELOPE, "payload": {"before": row, "op": "d", "source": {"ts_ms": 5, "lsn": 7}}}
    rows = applied(step, {"schema": ENVELOPE, "payload": {"after": row, "op": "c"}}, deleted, None)
    typed = {"order_id": 1, "amount": Decimal("5.00")}
    assert rows == [{**typed, "_kseg_op": "c"}, {**typed, "_kseg_op": "d"}, dict.fromkeys([*typed, "_kseg_op"])]


def test_formats_within_an_envelope_are_those_of_the_row() -> None:
    schema = {"columns": {"at": "timestamp"}}
    step = step_of(format="json", schema=schema, envelope="debezium", formats={"at": "epoch_seconds"})
    (row,) = applied(step, {"op": "u", "before": {"at": 0}, "after": {"at": 1}})
    assert row["at"].timestamp() == 1
    with pytest.raises(UndecodablePayload) as caught:
        applied(step, {"op": "u", "after": {"at": "x"}})
    assert caught.value.path == "after.at"


@pytest.mark.parametrize("format", ["json", "connect_json", "json_schema"])
@pytest.mark.parametrize("envelope", ["none", "debezium"])
def test_numbers_in_strings_are_numbers_where_the_job_says_so(tmp_path: Path, format: str, envelope: str) -> None:
    """Of Debezium with decimal.handling.mode=string, and of serializers that write a large `long` as a string."""
    columns = {"id": "bigint", "price": "double" if format == "json_schema" else "decimal(10,2)"}
    schema: dict[str, Any] = {"columns": columns}
    if format == "json_schema":
        state: dict[str, Any] = {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "price": {"type": "number"}},
        }
        if envelope == "debezium":
            states = {"before": state, "after": state, "op": {"type": "string"}}
            state = {"type": "object", "properties": states}
        file = tmp_path / "orders.json"
        file.write_text(json.dumps(state))
        schema = {"file": str(file)}
    row = {"id": "9007199254740993", "price": "12.50"}
    document: Any = row if envelope == "none" else {"op": "c", "after": row}
    if format == "connect_json":
        document = {"schema": None, "payload": document}
    formats = {"id": "string", "price": "string"}
    (found,) = applied(step_of(format=format, schema=schema, envelope=envelope, formats=formats), document)
    assert (found["id"], found["price"]) == (2**53 + 1, Decimal("12.50"))
    with pytest.raises(UndecodablePayload, match="WRONG_TYPE"):
        applied(step_of(format=format, schema=schema, envelope=envelope), document)


@pytest.mark.parametrize("on_error", ["fail", "set_null"])
def test_far_times_are_nulls_that_are_not_counted_as_errors(tmp_path: Path, on_error: str) -> None:
    file = tmp_path / "orders.json"
    properties = {"at": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"}}
    file.write_text(json.dumps({"type": "object", "properties": properties}))
    section = {"format": "json_schema", "schema": {"file": str(file)}, "out_of_range_times": "set_null"}
    step = decode_step(Decode.model_validate({"value": section, "on_error": on_error}))
    far = {"at": "infinity", "day": "+10000-01-01"}
    values = [json.dumps(value).encode() for value in (far, {"at": "2024-02-29T12:00:00Z", "day": "2024-02-29"})]
    rows = [{"topic": "orders", "partition": 1, "offset": n, "value": value} for n, value in enumerate(values)]
    out = step.apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS).to_pylist()
    assert [(row["at"] is None, row["day"] is None) for row in out] == [(True, True), (False, False)]
    refusing = step_of(**{**section, "out_of_range_times": "fail"})
    with pytest.raises(UndecodablePayload):
        applied(refusing, far)


def test_what_is_wrong_with_a_schema_is_said_before_anything_is_read(tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps(ROW))
    step = step_of(format="connect_json", schema={"file": str(file)}, envelope="debezium")
    with pytest.raises(ConfigurationError, match="no envelope of Debezium: it has no field before"):
        step.output_schema(ROWS)


def test_what_confluent_s_serializer_writes_is_read(tmp_path: Path) -> None:
    properties = {
        "id": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/Line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "number"}},
    }
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}}
    text = json.dumps({"title": "Order", "type": "object", "properties": properties, "definitions": {"Line": line}})
    registry = SchemaRegistryClient.new_client({"url": "mock://orders"})
    serialize = JSONSerializer(text, registry)
    orders = [
        {"id": 2**53 + n, "note": None if n else "é", "lines": [{"sku": "a", "n": n}] * n, "tags": {"x": 0.5}}
        for n in range(3)
    ]
    context = SerializationContext("orders", MessageField.VALUE)
    payloads = [serialize({**order, "at": "2026-01-02T03:04:05Z"}, context) for order in orders]
    assert all(payload is not None and payload[0] == 0 for payload in payloads), "framed with the schema's id"
    file = tmp_path / "orders.json"
    file.write_text(text)
    step = step_of(format="json_schema", schema={"file": str(file)})
    rows = [{"topic": "orders", "partition": 0, "offset": n, "value": each} for n, each in enumerate(payloads)]
    out = step.apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS).to_pylist()
    for row, order in zip(out, orders, strict=True):
        assert {**{name: row[name] for name in order}, "tags": dict(row["tags"])} == order
        assert row["at"].isoformat() == "2026-01-02T03:04:05+00:00"


def test_events_of_a_choice_that_confluent_s_serializer_writes(tmp_path: Path) -> None:
    """It checks them against the schema: each is one of its members, and no other."""
    order = {"type": "object", "properties": {"type": {"const": "order"}, "id": {"type": "integer"}}}
    refund = {"type": "object", "properties": {"type": {"const": "refund"}, "why": {"type": "string"}}}
    members = {"Order": {**order, "required": ["type"]}, "Refund": {**refund, "required": ["type"]}}
    choice = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in members]}
    text = json.dumps({"title": "Event", **choice, "definitions": members})
    serialize = JSONSerializer(text, SchemaRegistryClient.new_client({"url": "mock://events"}))
    context = SerializationContext("events", MessageField.VALUE)
    events = [{"type": "order", "id": 1}, {"type": "refund", "why": "é"}, {"type": "order", "id": 2}]
    file = tmp_path / "events.json"
    file.write_text(text)
    step = step_of(format="json_schema", schema={"file": str(file)})
    rows = [
        {"topic": "events", "partition": 0, "offset": n, "value": serialize(event, context)}
        for n, event in enumerate(events)
    ]
    out = step.apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS).to_pylist()
    assert [(row["Order"], row["Refund"]) for row in out] == [(events[0], None), (None, events[1]), (events[2], None)]
