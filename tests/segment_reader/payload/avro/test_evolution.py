"""A reader's schema that grows: fields are added, no column changes its type, and what it has covered it reads."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.evolution import columns_of, merged
from kseg.segment_reader.payload.avro.resolution import resolve
from kseg.segment_reader.payload.avro.schema import AvroRecord, Schema, Union, parse_schema
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.avro.types import arrow_type
from kseg.segment_reader.payload.errors import IncompatibleSchemas

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
ADDRESS_2 = {**ADDRESS, "fields": [*ADDRESS["fields"], {"name": "zip", "type": "string"}]}  # type: ignore[misc]
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def record(*fields: Any, **more: Any) -> Schema:
    listed = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return parse_schema(json.dumps({"type": "record", "name": "shop.Order", "fields": listed, **more}))


def one(kind: Any) -> Schema:
    return record(("a", kind))


def column(schema: Schema) -> str:
    return str(arrow_type(schema).field("a").type)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("long", "int"),
        ("double", "float"),
        ("long", ["null", "int"]),
        (["null", "long"], "long"),
        ("long", ["int", "long"]),
        ("string", "null"),
        ("string", "bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        (CENTS, {**CENTS, "precision": 8}),
        (ADDRESS_2, ADDRESS),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
        (["null", "int", "string"], "string"),
        ({**COLOUR, "symbols": ["RED", "BLUE"]}, COLOUR),
    ],
)
def test_a_writer_whose_values_fit_changes_nothing(reader: Any, writer: Any) -> None:
    before = one(reader)
    assert merged(before, one(writer)) is before
    resolve(one(writer), before)


@pytest.mark.parametrize(
    ("reader", "writer", "message"),
    [
        ("int", "long", "long does not fit the column, which is int: int"),
        ("long", "string", "string does not fit the column, which is long: bigint"),
        ("string", ADDRESS, "record shop.Address does not fit"),
        (CENTS, {**CENTS, "precision": 12}, r"decimal\(12, 2\) on bytes does not fit .*decimal\(10,2\)"),
        ("int", ["int", "string"], "string does not fit the column, which is int"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, r"Order\.a\[\].*long does not fit"),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}, "does not fit"),
        (ADDRESS, {**ADDRESS, "name": "Place"}, "record shop.Place does not fit"),
    ],
)
def test_a_column_keeps_its_type(reader: Any, writer: Any, message: str) -> None:
    with pytest.raises(IncompatibleSchemas, match=message):
        merged(one(reader), one(writer))


@pytest.mark.parametrize(
    ("reader", "writer", "after"),
    [
        (ADDRESS, ADDRESS_2, "struct<city: string, zip: string>"),
        (
            {"type": "array", "items": ADDRESS},
            {"type": "array", "items": ADDRESS_2},
            "list<item: struct<city: string, z",
        ),
        (["null", ADDRESS], ["null", ADDRESS_2], "struct<city: string, zip: string>"),
        (COLOUR, {**COLOUR, "symbols": ["BLUE", "RED"]}, "string"),
        (["null", "int", "string"], ["null", "boolean"], "struct<member0: int32, member1: string, member2: bool>"),
    ],
)
def test_what_is_new_comes_behind_what_is_there(reader: Any, writer: Any, after: str) -> None:
    made = merged(one(reader), one(writer))
    assert column(made).startswith(after)
    again = parse_schema(schema_text(made))
    assert schema_text(again) == schema_text(made)
    for text in (reader, writer):
        assert merged(again, one(text)) is again
        resolve(one(text), again)


def test_fields_are_added_in_the_order_of_versions_and_never_removed() -> None:
    first, second, third = (
        record(("id", "int"), ("a", "int")),
        record(("b", "int"), ("id", "int")),
        record(("c", "int")),
    )
    made = merged(merged(first, second), third)
    assert [field.name for field in arrow_type(made)] == ["id", "a", "b", "c"]
    kept = merged(first, second, add_fields=False)
    assert kept is first


def test_a_renamed_field_stays_one_column() -> None:
    made = merged(record(("cost", "int")), record({"name": "price", "type": "int", "aliases": ["cost"]}))
    assert [field.name for field in arrow_type(made)] == ["cost"]
    resolution = resolve(record(("price", "int")), made)
    assert resolution.node.steps[0].column == 0  # type: ignore[union-attr]


def test_one_type_in_two_places_is_written_once_and_two_of_one_name_apart() -> None:
    both = merged(record(("home", ADDRESS), ("work", "Address")), record(("home", ADDRESS_2), ("work", "Address")))
    assert str(arrow_type(both)).count("zip") == 2
    assert schema_text(both).count('"type":"record"') == 2
    apart = merged(record(("home", ADDRESS), ("work", "Address")), record(("home", ADDRESS_2)))
    again = parse_schema(schema_text(apart))
    assert arrow_type(again) == arrow_type(apart)
    assert merged(again, record(("home", ADDRESS), ("work", "Address"))) is again


@pytest.mark.parametrize("kind", ["string", {"type": "map", "values": COLOUR}, ["null", CENTS], [ADDRESS, "int"]])
def test_a_written_schema_is_the_same_schema(kind: Any) -> None:
    schema = record({"name": "a", "type": kind, "aliases": ["b"], "doc": "left out"}, aliases=["old.Order", "Bare"])
    again = parse_schema(schema_text(schema))
    assert schema_text(again) == schema_text(schema)
    assert arrow_type(again) == arrow_type(schema)
    assert again.aliases == schema.aliases == ("old.Order", "shop.Bare")  # type: ignore[union-attr]


def test_columns_are_counted_with_those_inside() -> None:
    kind = arrow_type(record(("id", "int"), ("list", {"type": "array", "items": ADDRESS_2}), ("map", "int")))
    assert columns_of(kind) == 4


@pytest.mark.parametrize(
    ("reader", "writer", "made"),
    [
        ("int", "long", "long"),
        (["null", "int"], "double", ["null", "double"]),
        (
            {"type": "array", "items": "float"},
            {"type": "array", "items": "double"},
            {"type": "array", "items": "double"},
        ),
        ("long", "int", "long"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
        ),
    ],
)
def test_a_table_that_is_not_there_yet_gets_the_wider_type(reader: Any, writer: Any, made: Any) -> None:
    one, other, both = (
        parse_schema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}))
        for kind in (reader, writer, made)
    )
    assert schema_text(merged(one, other, widen=True)) == schema_text(both)
    with pytest.raises(IncompatibleSchemas):
        merged(one, parse_schema('{"type":"record","name":"R","fields":[{"name":"a","type":"boolean"}]}'), widen=True)


def test_records_of_other_names_are_one_table_where_that_is_asked_for() -> None:
    order = parse_schema('{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"int"}]}')
    payment = (
        '{"type":"record","name":"shop.Payment","fields":[{"name":"id","type":"int"},{"name":"paid","type":"long"}]}'
    )
    with pytest.raises(IncompatibleSchemas, match="Payment"):
        merged(order, parse_schema(payment))
    both = merged(order, parse_schema(payment), any_name=True)
    assert [field.name for field in both.fields] == ["id", "paid"]
    again = parse_schema(schema_text(both))
    assert merged(again, parse_schema(payment)) is again, "its name is an alias by then"
    assert resolve(parse_schema(payment), again)


_OF_KIND = """{"type": "record", "name": "%(kind)s", "fields": [
    {"name": "at", "type": ["null", {"type": "record", "name": "%(kind)sPlace", "fields": [
        {"name": "%(kind)s_x", "type": "int"}, {"name": "note", "type": "string"}]}]},
    {"name": "states", "type": {"type": "array", "items":
        {"type": "enum", "name": "%(kind)sState", "symbols": ["%(kind)s", "DONE"]}}},
    {"name": "again", "type": "%(kind)sPlace"}]}"""


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_records_and_enums_of_their_fields_match_too(engine: Any) -> None:
    """Each kind is decoded by its own schema into the columns of both; the names within are aliases."""
    kinds = [parse_schema(_OF_KIND % {"kind": kind}) for kind in ("Order", "Payment")]
    with pytest.raises(IncompatibleSchemas):
        merged(kinds[0], replace(kinds[1], aliases=("Order",)))
    text = schema_text(merged(*kinds, any_name=True))
    both = parse_schema(text)
    for kind, schema in zip(("Order", "Payment"), kinds, strict=True):
        assert merged(both, schema, any_name=True) is both, "nothing is left to add"
        place = {f"{kind}_x": 7, "note": kind}
        payload = io.BytesIO()
        value = {"at": place, "states": [kind, "DONE"], "again": place}
        fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(_OF_KIND % {"kind": kind})), value)
        rows = avro_decoder(schema, both, engine=engine).decode(pa.array([payload.getvalue()])).rows
        whole = dict.fromkeys(("Order_x", "Payment_x")) | place
        assert rows.to_pylist() == [value | {"at": whole, "again": whole}]


def test_members_of_a_union_of_several_types_are_told_apart_by_their_names() -> None:
    union = """{"type": "record", "name": "R", "fields": [{"name": "at", "type":
        ["string", {"type": "record", "name": "%s", "fields": [{"name": "x", "type": "int"}]}]}]}"""
    both = merged(parse_schema(union % "A"), parse_schema(union % "B"), any_name=True)
    assert isinstance(both, AvroRecord)
    assert isinstance(both.fields[0].schema, Union)
    assert [getattr(branch, "name", None) for branch in both.fields[0].schema.branches][-2:] == ["A", "B"]


def address(namespace: str, field: str, kind: str = "string") -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Address",
        "namespace": namespace,
        "fields": [{"name": field, "type": kind}],
    }


@pytest.mark.parametrize("billing", ["same", "grown"])
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_a_new_union_keeps_types_of_one_simple_name_apart(engine: Any, billing: str) -> None:
    """Also through the text that the ledger stores, and if the reader's copy of the type has grown."""
    street, city = address("shop.v1", "street"), address("shop.v2", "city")
    known = street if billing == "same" else address("shop.v1", "number")
    writer = record(("billing", street), ("shipping", ["null", city, "shop.v1.Address"]))
    reader = parse_schema(schema_text(merged(record(("billing", known)), writer)))
    payload = b"\x0eMain St" + b"\x04" + b"\x0eDock Rd"
    rows = avro_decoder(writer, reader, engine=engine).decode(pa.array([payload])).rows
    assert rows[0].as_py()["shipping"] == {"member0": None, "member1": {"street": "Dock Rd"}}
    assert merged(reader, writer) is reader


def test_a_type_that_the_reader_has_is_not_copied() -> None:
    street = address("shop.v1", "street")
    made = merged(record(("billing", street)), record(("billing", street), ("shipping", ["null", "shop.v1.Address"])))
    assert schema_text(made).count('"type":"record"') == 2
    assert made.fields[1].schema.branches[1] is made.fields[0].schema  # type: ignore[union-attr]


@pytest.mark.parametrize("kinds", [("int", "string"), ("string", "string")])
def test_branches_of_one_simple_name_are_matched_by_their_full_names(kinds: tuple[str, str]) -> None:
    first, second = address("shop.v1", "zip", kinds[0]), address("shop.v2", "zip", kinds[1])
    reader = one(["null", first, second])
    for union in (["null", first, second], [second, "null", first]):
        assert merged(reader, one(union)) is reader


def test_a_second_branch_of_a_simple_name_becomes_a_member_of_its_own() -> None:
    first, second = address("shop.v1", "street"), address("shop.v2", "city")
    made = merged(one(["null", "string", first]), one(["null", "string", first, second]))
    members = "member0: string, member1: struct<street: string>, member2: struct<city: string>"
    assert column(made) == f"struct<{members}>"


def test_records_of_one_simple_name_in_two_namespaces_are_read_beside_a_third() -> None:
    """Their full names are aliases: by one of them resolution does not find the other."""
    kinds = [one("int"), *(replace(one("int"), name=f"shop.v{number}.Payment") for number in (1, 2))]  # type: ignore[type-var]
    made = kinds[0]
    for kind in kinds[1:]:
        made = merged(made, kind, any_name=True)
    again = parse_schema(schema_text(made))
    for kind in kinds:
        assert merged(again, kind, any_name=True) is again
        resolve(kind, again)
