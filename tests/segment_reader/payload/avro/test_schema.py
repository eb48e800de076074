"""Schemas: what is parsed, what is refused and where."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from kseg.segment_reader.payload.avro.schema import (
    AvroEnum,
    AvroRecord,
    Fixed,
    Logical,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
    describe,
    parse_schema,
)
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.errors import IncompatibleSchemas, InvalidSchema, PayloadSchemaError


def parsed(schema: Any) -> Schema:
    return parse_schema(json.dumps(schema))


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields), **more}


def field_of(kind: Any) -> Schema:
    order = parsed(record({"name": "f", "type": kind}))
    assert isinstance(order, AvroRecord)
    return order.fields[0].schema


def test_names_are_resolved_in_the_namespace_that_encloses_them() -> None:
    order = parsed(
        record(
            {"name": "a", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
            {"name": "b", "type": "Kind"},
            {"name": "c", "type": "shop.Kind"},
            {"name": "d", "type": {"type": "fixed", "name": "other.Hash", "size": 4, "aliases": ["Sum", "x.Digest"]}},
            {"name": "e", "type": "other.Hash"},
            {"name": "next", "type": ["null", "Order"]},
            namespace="shop",
            aliases=["Purchase"],
        )
    )
    assert isinstance(order, AvroRecord)
    kinds = [field.schema for field in order.fields]
    assert (order.name, order.aliases) == ("shop.Order", ("shop.Purchase",))
    assert kinds[0] is kinds[1] is kinds[2]
    assert isinstance(kinds[3], Fixed)
    assert kinds[3] is kinds[4]
    assert kinds[3].aliases == ("other.Sum", "x.Digest")
    assert isinstance(kinds[5], Union)
    assert kinds[5].branches[1] is order


def test_a_dot_in_front_of_a_name_is_no_namespace() -> None:
    inner = {"type": "enum", "name": ".Kind", "symbols": []}
    order = parsed(record({"name": "a", "type": inner}, {"name": "b", "type": ".Kind"}, namespace="shop"))
    assert isinstance(order, AvroRecord)
    assert order.fields[1].schema is order.fields[0].schema


def test_names_are_those_that_java_accepts() -> None:
    """Namespaces and aliases are not checked there."""
    field = {"name": "größe", "type": "Kind", "aliases": ["first-name"]}
    kind = {"type": "enum", "name": "Kind", "symbols": ["ÄRGER", "_1"], "aliases": ["old-kind"]}
    order = parsed(record({"name": "a", "type": kind}, field, namespace="my-app.events"))
    assert isinstance(order, AvroRecord)
    assert (order.name, order.fields[1].name, order.fields[1].aliases) == (
        "my-app.events.Order",
        "größe",
        ("first-name",),
    )
    assert order.fields[1].schema is order.fields[0].schema
    assert order.fields[1].schema.aliases == ("my-app.events.old-kind",)  # type: ignore[union-attr]
    assert schema_text(parse_schema(schema_text(order))) == schema_text(order)
    used = parse_schema("my-app.events.Order", [schema_text(order)])
    assert isinstance(used, AvroRecord)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a.", "€"])
def test_a_name_of_other_characters_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchema, match="is no name: letters, digits and _, not beginning with a digit"):
        parsed({"type": "record", "name": name, "fields": []})
    with pytest.raises(InvalidSchema, match="is no name"):
        parsed(record({"name": name, "type": "int"}))


def test_references_bring_named_types() -> None:
    money = '{"type": "record", "name": "shop.Money", "fields": []}'
    line = '{"type": "record", "name": "shop.Line", "fields": [{"name": "price", "type": "Money"}]}'
    found = parse_schema('{"type": "array", "items": "shop.Line"}', [money, line])
    assert describe(found) == "array of record shop.Line"


def test_bare_names_and_nested_types_are_schemas() -> None:
    assert parse_schema("long") == parse_schema('"long"') == parse_schema('{"type": {"type": "long"}}')


@pytest.mark.parametrize(
    ("schema", "logical"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, (Logical.DECIMAL, 4, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, (Logical.DECIMAL, 4, 0)),
        ({"type": "int", "logicalType": "date"}, (Logical.DATE, 0, 0)),
        ({"type": "string", "logicalType": "uuid"}, (Logical.UUID, 0, 0)),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, (Logical.LOCAL_TIMESTAMP_NANOS, 0, 0)),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, (Logical.DURATION, 0, 0)),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, (Logical.UUID, 0, 0)),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9},
            (Logical.DECIMAL, 9, 0),
        ),
    ],
)
def test_logical_types_are_recognised(schema: Any, logical: tuple[Logical, int, int]) -> None:
    found = field_of(schema)
    assert isinstance(found, Primitive | Fixed)
    assert (found.logical, found.precision, found.scale) == logical


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5},
        {"type": "bytes", "logicalType": "decimal", "precision": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": "4"},
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "string", "logicalType": "decimal", "precision": 4},
        {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10},
        {"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"},
        {"type": "fixed", "name": "F", "size": 11, "logicalType": "duration"},
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "date"},
        {"type": "bytes", "logicalType": "big-decimal"},
        {"type": "long", "logicalType": 7},
    ],
)
def test_logical_types_that_are_unknown_or_invalid_are_ignored(schema: Any) -> None:
    found = field_of(schema)
    assert isinstance(found, Primitive | Fixed)
    assert found.logical is None


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("[]", "a union without branches"),
        ("{", "no JSON: "),
        ('{"type": "record", "name": "R", "fields": [], "x": NaN}', "no JSON: NaN"),
        ("7", "a schema is a name, an object or a list, not 7"),
        ("{}", "`type` is missing"),
        ('{"type": "array"}', "`items` is missing"),
        ('{"type": "record", "name": "R", "fields": [{"name": "f"}]}', "R.f: `type` is missing"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "R: null is no name"),
        ('{"type": "record", "name": "R", "fields": {}}', "R: `fields` is no list"),
        ('{"type": "record", "name": "R-1", "fields": []}', '"R-1" is no name'),
        ('{"type": "record", "name": "int", "fields": []}', "`int` is a primitive type's name"),
        ('["null", "null"]', "a union with two branches of type null"),
        ('[{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]', "two branches of type array"),
        ('["null", ["int"]]', "a union directly within a union"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the same symbol twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', 'default "B" is none of its symbols'),
        ('{"type": "fixed", "name": "F", "size": -1}', "a fixed type's size is a number of bytes, not -1"),
        ('{"type": "fixed", "name": "F", "size": true}', "not true"),
        ('{"type": "map", "values": "Money"}', "{}: unknown type `Money`"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse_schema(schema)
    assert message in str(caught.value)


def test_two_fields_or_types_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"Order\.a: two fields of this name"):
        parsed(record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}))
    enum = {"type": "enum", "name": "E", "symbols": []}
    with pytest.raises(InvalidSchema, match=r"Order\.b: the type `E` is defined twice"):
        parsed(record({"name": "a", "type": enum}, {"name": "b", "type": enum}))


def test_types_nested_too_deep_are_refused() -> None:
    text = '{"type": "array", "items": ' * 100 + '"int"' + "}" * 100
    with pytest.raises(InvalidSchema, match="nested more than 64 deep"):
        parse_schema(text)
    with pytest.raises(InvalidSchema):
        parse_schema("[" * 100_000)


def test_a_type_is_described_in_a_few_words() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert (
        describe(parsed(["null", {"type": "map", "values": decimal}])) == "union of null, map of decimal(9, 2) on bytes"
    )
    assert describe(AvroEnum("a.E", ())) == "enum a.E"
    assert describe(Primitive(PrimitiveKind.LONG, Logical.TIMESTAMP_MILLIS)) == "timestamp-millis on long"


@pytest.mark.parametrize("error", [InvalidSchema("R.f", "why"), IncompatibleSchemas("R.f", "Q.f", "why")])
def test_errors_cross_process_borders(error: PayloadSchemaError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.place) == (type(error), str(error), "R.f")
