"""Versions of the rules of decoding."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.config.decoding import Payload
from kseg.etl.decoding.formats.registry import schema_format
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST, NEWEST, PROPERTY, DecodingRules, rules_of


def test_a_version_stands_for_its_capabilities() -> None:
    assert rules_of(1) == FIRST
    assert not any((FIRST.nulls_fields, FIRST.limits_nulled, FIRST.connect_logical_types, FIRST.marks_unavailable))
    assert rules_of(NEWEST.version) == NEWEST
    assert all((NEWEST.nulls_fields, NEWEST.limits_nulled, NEWEST.connect_logical_types, NEWEST.marks_unavailable))


@pytest.mark.parametrize("version", [0, NEWEST.version + 1])
def test_a_version_that_this_release_does_not_have_is_an_error(version: int) -> None:
    with pytest.raises(ValueError, match=f"decoding rules {version} are unknown"):
        rules_of(version)


def test_tables_of_the_first_version_name_none() -> None:
    assert FIRST.properties == {}
    assert NEWEST.properties == {PROPERTY: str(NEWEST.version)}


# --- what earlier releases rejected is decoded by all versions: no row that has landed has another value


def record(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]})


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize("rules", [FIRST, NEWEST], ids=["first", "newest"])
@pytest.mark.parametrize(
    ("before", "now", "written", "value"),
    [
        ("string", ENUM, b"\2", "B"),
        (ENUM, "string", b"\2C", "C"),
        (ENUM, {**ENUM, "name": "Other", "symbols": ["Z"]}, b"\0", "Z"),
        ("bytes", FIXED, b"xy", b"xy"),
        (FIXED, "bytes", b"\6xyz", b"xyz"),
        (FIXED, {**FIXED, "name": "Other", "size": 3}, b"xyz", b"xyz"),
    ],
)
def test_avro_types_with_the_same_column(
    before: Any, now: Any, written: bytes, value: Any, rules: DecodingRules
) -> None:
    format = schema_format(Payload.model_validate({"format": "avro", "schema": "registry"}), rules)
    reader, writer = format.reader(record(before)), format.writer(record(now))
    grown = format.merged(reader, writer, add_fields=True)  # of an enum with further symbols
    assert format.type(grown) == format.type(reader)
    decoded = format.decoder(writer, grown).decode(pa.array([written], pa.binary()))
    assert decoded.rows.to_pylist() == [{"v": value}]


@pytest.mark.parametrize("rules", [FIRST, NEWEST], ids=["first", "newest"])
@pytest.mark.parametrize(
    "other",
    [
        {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"},
        {"type": "uint128"},
    ],
    ids=["map", "decimal", "unknown"],
)
def test_undeclared_fields_of_connects_json(other: Any, rules: DecodingRules) -> None:
    fields = [{"field": "id", "type": "int64"}, {"field": "other", "optional": True, **other}]
    message = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "other": None}}
    plan = PayloadPlan("value", "connect_json", "value", (("id", "bigint"),), rules=rules)
    batch = pa.record_batch([pa.array([json.dumps(message).encode()], pa.binary())], names=["value"])
    assert [row["id"] for row in plan.decode(batch).rows.to_pylist()] == [1]


# --- choices of objects in JSON Schema


PAID = {"title": "Paid", "type": "object", "properties": {"kind": {"const": "paid"}, "amount": {"type": "number"}}}
SENT = {"title": "Sent", "type": "object", "properties": {"kind": {"const": "sent"}, "to": {"type": "string"}}}
EVENTS = {"type": "object", "properties": {"id": {"type": "integer"}, "event": {"oneOf": [PAID, SENT]}}}
EVENT = b'{"id": 1, "event": {"kind": "paid", "amount": 2.5}}'
AS_STRUCTS = {"Paid": {"kind": "paid", "amount": 2.5}, "Sent": None}
AS_TEXT = '{"kind": "paid", "amount": 2.5}'


@pytest.mark.parametrize(
    ("rules", "unknown", "event"),
    [(FIRST, "ignore", AS_TEXT), (NEWEST, "ignore", AS_STRUCTS), (NEWEST, "rescue", AS_TEXT)],
)
def test_choices_are_structs_by_the_newest_rules_where_no_fields_are_rescued(
    rules: DecodingRules, unknown: str, event: Any
) -> None:
    """With a schema in the job file and with one in a registry."""
    options, text = (("unknown_fields", unknown),), json.dumps(EVENTS)
    plan = PayloadPlan("value", "json_schema", "value", schema_text=text, json=options, rules=rules)
    batch = pa.record_batch([pa.array([EVENT], pa.binary())], names=["value"])
    assert plan.decode(batch).rows.to_pylist()[0]["event"] == event
    how = {"format": "json_schema", "schema": "registry", "unknown_fields": unknown}
    format = schema_format(Payload.model_validate(how), rules)
    writer = format.writer(text)
    decoded = format.decoder(writer, format.first(writer)).decode(pa.array([EVENT]))
    assert decoded.rows.to_pylist()[0]["event"] == event


def test_a_choice_grows_by_members_in_any_order() -> None:
    format = schema_format(Payload.model_validate({"format": "json_schema", "schema": "registry"}), NEWEST)
    more = {"title": "Lost", "type": "object", "properties": {"kind": {"const": "lost"}, "at": {"type": "string"}}}
    longer = {**SENT, "properties": {**SENT["properties"], "by": {"type": "string"}}}
    first = format.writer(json.dumps({"oneOf": [PAID, SENT]}))
    second = format.writer(json.dumps({"oneOf": [more, longer, PAID]}))
    reader = format.merged(format.first(first), second, add_fields=True)
    assert format.reader(format.text(reader)) == reader
    assert [field.name for field in format.type(reader)] == ["Paid", "Sent", "Lost"]
    sent = {"kind": "sent", "to": "x", "by": "post"}
    rows = [
        format.decoder(writer, reader).decode(pa.array([json.dumps(event).encode()])).rows.to_pylist()[0]
        for writer, event in ((first, sent), (second, sent), (second, {"kind": "lost", "at": "sea"}))
    ]
    assert rows == [
        {"Paid": None, "Sent": {"kind": "sent", "to": "x", "by": None}, "Lost": None},
        {"Paid": None, "Sent": sent, "Lost": None},
        {"Paid": None, "Sent": None, "Lost": {"kind": "lost", "at": "sea"}},
    ]


def test_choices_in_the_rows_of_an_envelope() -> None:
    days = {**PAID, "properties": {**PAID["properties"], "on": {"type": "string", "format": "date"}}}
    row = {**EVENTS, "properties": {"id": {"type": "integer"}, "event": {"oneOf": [days, SENT]}}}
    envelope = {"type": "object", "properties": {"before": row, "after": row, "op": {"type": "string"}}}
    options = (("unknown_fields", "ignore"),)
    plan = PayloadPlan(
        "value", "json_schema", "value", schema_text=json.dumps(envelope), json=options, envelope="debezium"
    )
    change = {"before": None, "after": {"id": 1, "event": {"kind": "paid", "on": "2024-02-29"}}, "op": "c"}
    gone = {"before": {"id": 2, "event": {"kind": "sent"}}, "after": None, "op": "d"}
    texts = pa.array([json.dumps(each).encode() for each in (change, gone)], pa.binary())
    rows = plan.decode(pa.record_batch([texts], names=["value"])).rows.to_pylist()
    assert rows[0]["event"] == {"Paid": {"kind": "paid", "amount": None, "on": date(2024, 2, 29)}, "Sent": None}
    assert rows[1]["event"] == {"Paid": None, "Sent": {"kind": "sent", "to": None}}
