"""Versions of the rules of decoding."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.config.decoding import Payload
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST, NEWEST, PROPERTY, DecodingRules, rules_of
from kseg.etl.decoding.schema_formats import schema_format


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
