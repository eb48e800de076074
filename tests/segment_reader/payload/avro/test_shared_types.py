"""Types of a writer's schema that are equal to the reader's of their name become one object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kseg.segment_reader.payload.avro.schema import AvroRecord, Schema, parse_schema
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.avro.shared_types import SharedTypes, named_types, same_type


def record(name: str, *kinds: Any, **more: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields, **more}


def parsed(schema: Any) -> Schema:
    return parse_schema(json.dumps(schema))


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record("R", "int"), record("R", "long")),
        (record("R", "int"), record("R", "int", "int")),
        (record("R", "int"), record("R", "int", aliases=["S"])),
        (record("R", "int"), record("Q", "int")),
        (record("R", ["null", "int"]), record("R", ["null"])),
        (record("R", {"type": "array", "items": "int"}), record("R", {"type": "map", "values": "int"})),
        (ENUM, {**ENUM, "symbols": ["A"]}),
        (FIXED, {**FIXED, "logicalType": "none"}),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": 1}]},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": 1.0}]},
        ),
    ],
)
def test_types_that_differ_in_anything_are_different(one: Any, other: Any) -> None:
    assert not same_type(parsed(one), parsed(other))
    assert same_type(parsed(one), parsed(one))
    assert same_type(parsed(other), parsed(other))


def test_records_that_contain_themselves_are_compared() -> None:
    node = record("Node", ["null", "Node"], ENUM)
    assert same_type(parsed(node), parsed(node))
    assert not same_type(parsed(node), parsed(record("Node", ["null", "Node"], {**ENUM, "symbols": ["A"]})))
    assert list(named_types(parsed(node))) == ["Node", "E"]


def test_known_types_are_reused_within_new_ones() -> None:
    """Types of the same name that differ are not, and a type that is used twice stays one."""
    known = parsed(record("Known", record("Inner", "int"), ENUM, FIXED))
    new = parsed(record("New", record("Inner", "long"), ["null", ENUM], {"type": "map", "values": FIXED}, "Inner"))
    made = SharedTypes(named_types(known)).of(new)
    assert isinstance(made, AvroRecord)
    assert isinstance(known, AvroRecord)
    assert schema_text(made) == schema_text(new)
    assert made.fields[0].schema is made.fields[3].schema
    assert made.fields[0].schema is not known.fields[0].schema
    assert made.fields[1].schema.branches[1] is known.fields[1].schema  # type: ignore[union-attr]
    assert made.fields[2].schema.values is known.fields[2].schema  # type: ignore[union-attr]


def test_a_record_that_contains_itself_is_copied() -> None:
    made = SharedTypes({}).of(parsed(record("Node", ["null", "Node"])))
    assert made.fields[0].schema.branches[1] is made  # type: ignore[union-attr]
