"""A writer's schema read with another: promotions, names, unions, defaults, units; and what is refused."""

from __future__ import annotations

import io
import json
import random
import uuid
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from avro_schemas import Branch, encode
from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.evolution import merged
from kseg.segment_reader.payload.avro.resolution import Missing, resolve
from kseg.segment_reader.payload.avro.schema import Union, parse_schema
from kseg.segment_reader.payload.avro.types import arrow_type
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import IncompatibleSchemas, InvalidSchema

TIMES = {name: {"type": "long", "logicalType": f"timestamp-{name}"} for name in ("millis", "micros", "nanos")}
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
UUID_FIXED = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}


@pytest.fixture(params=["fast", "reference"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def read(
    engine: Any, writer: Any, reader: Any, value: Any, missing: Missing = Missing.NULL
) -> tuple[Status, Any, pa.DataType]:
    """Status, value (or the error's message) and type of one value as the payload."""
    decoder = avro_decoder(
        parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)), missing=missing, engine=engine
    )
    found = decoder.decode(pa.array([encode(writer, value, random.Random(1))]))
    status = Status(int(found.status[0]))
    if status is not Status.DECODED:
        return status, decoder.explain(encode(writer, value, random.Random(1))).message, decoder.type
    return status, found.rows.to_pylist()[0], decoder.type


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", -7, -7),
        ("int", "float", 5, 5.0),
        ("int", "double", 5, 5.0),
        ("long", "float", 1 << 40, float(1 << 40)),
        ("long", "double", -(1 << 63), -float(1 << 63)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("long", TIMES["millis"], 5, "1970-01-01 00:00:00.005000+00:00"),
        (TIMES["millis"], "long", 5, 5),
        (TIMES["millis"], TIMES["micros"], -5, "1969-12-31 23:59:59.995000+00:00"),
        (TIMES["micros"], TIMES["millis"], 5, "1970-01-01 00:00:00.000005+00:00"),
        (TIMES["nanos"], TIMES["micros"], -5000, "1969-12-31 23:59:59.999995+00:00"),
        (TIMES["micros"], TIMES["nanos"], 5, 5000),
        (TIMES["nanos"], TIMES["nanos"], 5, 5),
        ("int", TIMES["millis"], 5, "1970-01-01 00:00:00.005000+00:00"),
        ({"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}, 7, 7000),
        ("bytes", decimal(5, 2), b"\xff", Decimal("-0.01")),
        (decimal(5, 2), "bytes", b"\xff", b"\xff"),
        (decimal(5, 2), decimal(7, 4), b"\xff", Decimal("-0.0100")),
        (decimal(7, 4), decimal(5, 2), b"\xff\x9c", Decimal("-0.01")),
        (decimal(5, 2), decimal(4, 2), b"\x27\x0f", Decimal("99.99")),
        ("null", "long", None, None),
        (["null", "int"], "int", Branch(0, None), None),
        (["int"], "long", Branch(0, 3), 3),
        ("int", ["null", "long"], 3, 3),
        (["int", "long"], ["int", "long"], Branch(0, 3), 3),
        (["float", "double"], ["null", "double", "float"], Branch(0, 0.5), 0.5),
    ],
)
def test_values_that_may_be_read_as_another_type(
    engine: Any, writer: Any, reader: Any, value: Any, expected: Any
) -> None:
    status, found, _ = read(engine, writer, reader, value)
    assert status is Status.DECODED, found
    assert (str(found) if isinstance(expected, str) and not isinstance(found, str) else found) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "value", "status"),
    [
        ("long", "double", (1 << 53) + 1, Status.INEXACT),
        ("long", "double", (1 << 63) - 1, Status.INEXACT),
        ("int", "float", (1 << 24) + 1, Status.INEXACT),
        ("long", "float", (1 << 63) - 1, Status.INEXACT),
        (TIMES["nanos"], TIMES["micros"], 1, Status.INEXACT),
        (TIMES["nanos"], TIMES["micros"], -1, Status.INEXACT),
        (TIMES["millis"], TIMES["millis"], 1 << 60, Status.OUT_OF_RANGE),
        (TIMES["millis"], TIMES["millis"], -(1 << 60), Status.OUT_OF_RANGE),
        (TIMES["millis"], TIMES["nanos"], 1 << 50, Status.OUT_OF_RANGE),
        ("bytes", "string", b"\xed\xa0\x80", Status.INVALID_UTF8),
        (decimal(5, 2), decimal(4, 2), b"\x27\x10", Status.OUT_OF_RANGE),
        (decimal(5, 2), decimal(4, 2), b"\xd8\xf0", Status.OUT_OF_RANGE),
        (decimal(38, 0), decimal(38, 0), (10**38).to_bytes(16, "big"), Status.OUT_OF_RANGE),
        (decimal(38, 0), decimal(38, 0), b"\x80" + bytes(15), Status.OUT_OF_RANGE),
        (decimal(38, 0), decimal(38, 0), b"\x00\x80" + bytes(15), Status.OUT_OF_RANGE),
        (decimal(38, 0), decimal(38, 0), b"\x01" + bytes(16), Status.OUT_OF_RANGE),
        (decimal(5, 2), decimal(38, 38), b"\x01" + bytes(2), Status.OUT_OF_RANGE),
        (decimal(7, 4), decimal(5, 2), b"\x01", Status.INEXACT),
        (decimal(5, 2), decimal(5, 2), b"", Status.MALFORMED),
        (["int", "string"], "long", Branch(1, "a"), Status.INCOMPATIBLE_SCHEMA),
    ],
)
def test_values_that_do_not_fit(engine: Any, writer: Any, reader: Any, value: Any, status: Status) -> None:
    assert read(engine, writer, reader, value)[0] is status


def test_decimals_of_38_digits_are_exact(engine: Any) -> None:
    for scale, reader_scale in ((0, 0), (38, 38), (0, 5), (5, 0), (38, 3)):
        for value in (0, 10**33 - 1, -(10**33) + 1, 10**32, -(10**32) * 7):
            digits = value * 10 ** (scale - reader_scale) if scale > reader_scale else value
            if abs(digits) >= 10**38:
                continue
            data = digits.to_bytes(17, "big", signed=True)
            status, found, _ = read(engine, decimal(38, scale), decimal(38, reader_scale), data)
            assert status is Status.DECODED
            assert found == Decimal(digits).scaleb(-scale, Context(prec=99))


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        ("long", "int", "long cannot be read as int"),
        ("string", "int", "string cannot be read as int"),
        ("string", decimal(5, 2), r"string cannot be read as decimal\(5, 2\) on bytes"),
        (decimal(5, 2), "string", "cannot be read as string"),
        (
            {"type": "int", "logicalType": "date"},
            TIMES["millis"],
            "date on int cannot be read as timestamp-millis on long",
        ),
        (TIMES["millis"], {"type": "long", "logicalType": "local-timestamp-millis"}, "cannot be read"),
        (TIMES["millis"], {"type": "long", "logicalType": "time-micros"}, "cannot be read"),
        (
            {"type": "array", "items": "string"},
            {"type": "array", "items": "int"},
            r"writer's \[\], reader's \[\]: string",
        ),
        (["null", "string"], "int", "string cannot be read as int"),
        ("int", ["null", "string"], "int cannot be read as string"),
        ("int", ["null"], "int cannot be read as union of null"),
        (record(name="A"), record(name="B"), "record A cannot be read as record B"),
        (
            record({"name": "f", "type": record({"name": "g", "type": "string"}, name="In")}),
            record({"name": "f", "type": record({"name": "g", "type": "int"}, name="In")}),
            r"writer's Order\.f\.g, reader's Order\.f\.g: string cannot be read as int",
        ),
        ({"type": "fixed", "name": "F", "size": 3}, "string", r"fixed F\(3\) cannot be read as string"),
        ({"type": "fixed", "name": "F", "size": 3}, UUID_FIXED, r"fixed F\(3\) cannot be read as"),
        (decimal(5, 2), {"type": "fixed", "name": "F", "size": 3}, r"decimal\(5, 2\).* cannot be read as fixed"),
        (COLOURS, "int", "enum Colour cannot be read as int"),
        ("int", COLOURS, "int cannot be read as enum Colour"),
    ],
)
def test_schemas_that_do_not_match_are_refused_with_both_places(writer: Any, reader: Any, message: str) -> None:
    with pytest.raises(IncompatibleSchemas, match=message):
        avro_decoder(parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)))


def test_fields_match_by_name_then_by_alias(engine: Any) -> None:
    writer = record({"name": "a", "type": "int"}, {"name": "b", "type": "string"}, {"name": "gone", "type": "bytes"})
    reader = record(
        {"name": "c", "type": "string", "aliases": ["a", "b"]},
        {"name": "a", "type": "long"},
        {"name": "late", "type": "int", "default": 3},
        name="Purchase",
        aliases=["Order"],
    )
    value = {"a": 1, "b": "x", "gone": b"..."}
    assert read(engine, writer, reader, value)[1] == {"c": "x", "a": 1, "late": None}
    assert read(engine, writer, reader, value, Missing.FILL)[1] == {"c": "x", "a": 1, "late": 3}


def test_a_field_that_is_not_written_needs_a_default_only_when_it_is_filled(engine: Any) -> None:
    writer, reader = record(), record({"name": "a", "type": "int"})
    assert read(engine, writer, reader, {})[1] == {"a": None}
    with pytest.raises(IncompatibleSchemas, match="the writer has no field `a`, and the reader no default"):
        read(engine, writer, reader, {}, Missing.FILL)


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("boolean", True, True),
        ("float", 1.5, 1.5),
        ("double", "NaN", "nan"),
        ("string", "日本", "日本"),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        (decimal(4, 1), "\u0001\u0000", Decimal("25.6")),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        (["null", "int"], None, None),
        (["null", "int"], 5, 5),
        (record({"name": "x", "type": "int", "default": 4}, name="In"), {}, {"x": 4}),
    ],
)
def test_defaults_fill(engine: Any, kind: Any, default: Any, expected: Any) -> None:
    reader = record({"name": "z", "type": "string"}, {"name": "a", "type": kind, "default": default})
    row = read(engine, record({"name": "z", "type": "string"}), reader, {"z": "zz"}, Missing.FILL)[1]
    assert row["z"] == "zz"
    assert (str(row["a"]) if expected == "nan" else row["a"]) == expected


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", "1"), ("int", 1 << 31), ("int", 1.5), ("bytes", "€"), ("boolean", 0), ("float", 1e300), (["int"], None)],
)
def test_a_default_that_is_no_value_is_refused(kind: Any, default: Any) -> None:
    refused_default(kind, json.dumps(default))


@pytest.mark.parametrize(
    ("kind", "default"), [("int", "1e999"), ("long", "-1e999"), ("double", "1" + "0" * 400), ("float", "1" + "0" * 400)]
)
def test_a_default_that_is_too_large_is_refused(kind: str, default: str) -> None:
    refused_default(kind, default)


def test_a_branch_that_cannot_hold_a_default_is_passed_over() -> None:
    reader = record({"name": "z", "type": "string"}, {"name": "a", "type": ["int", "double"], "default": 1 << 40})
    row = read("reference", record({"name": "z", "type": "string"}), reader, {"z": ""}, Missing.FILL)[1]
    assert row["a"] == {"member0": None, "member1": 2.0**40}


def refused_default(kind: Any, default: str) -> None:
    """default: JSON text."""
    text = json.dumps(record({"name": "a", "type": kind, "default": "here"}))
    reader = parse_schema(text.replace('"here"', default))
    with pytest.raises(InvalidSchema, match=r"Order\.a: the default is no value of "):
        avro_decoder(parse_schema(json.dumps(record())), reader, missing=Missing.FILL)
    avro_decoder(parse_schema(json.dumps(record())), reader)


def test_enums_are_resolved_by_symbol(engine: Any) -> None:
    writer = {"type": "enum", "name": "a.E", "symbols": ["A", "B", "C"]}
    reader = {"type": "enum", "name": "b.E", "symbols": ["C", "A"]}
    assert [read(engine, writer, reader, symbol)[1] for symbol in "AC"] == ["A", "C"]
    status, message, _ = read(engine, writer, reader, "B")
    assert (status, message) == (Status.UNKNOWN_SYMBOL, "the reader's enum has no symbol B")
    assert read(engine, writer, reader | {"default": "A"}, "B")[1] == "A"


def test_a_union_of_more_than_one_type_is_a_struct_of_its_members(engine: Any) -> None:
    inner = record({"name": "x", "type": "int"}, name="In")
    writer = ["null", "string", inner]
    _, value, kind = read(engine, writer, writer, Branch(2, {"x": 1}))
    assert kind == pa.struct([("member0", pa.string()), ("member1", pa.struct([("x", pa.int32())]))])
    assert value == {"member0": None, "member1": {"x": 1}}
    assert read(engine, writer, writer, Branch(0, None))[1] is None
    # of the reader's branches the one that equals what is written, wherever it is
    assert read(engine, "int", ["long", "string", "int", "null", "double"], 1)[1] == {
        "member0": None,
        "member1": None,
        "member2": 1,
        "member3": None,
    }
    assert read(engine, "int", ["string", "double"], 1)[1] == {"member0": None, "member1": 1.0}


def test_records_of_one_simple_name_are_told_apart_by_their_namespace(engine: Any) -> None:
    one, two = record({"name": "x", "type": "int"}, name="a.R"), record({"name": "x", "type": "int"}, name="b.R")
    assert read(engine, two, [one, two], {"x": 1})[1] == {"member0": None, "member1": {"x": 1}}


OF_TEXT: list[tuple[Any, Any, str]] = [
    ("string", "BLUE", "BLUE"),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7), str(uuid.UUID(int=7))),
    (COLOURS, "BLUE", "BLUE"),
    ({**COLOURS, "name": "Paint", "namespace": "shop"}, "RED", "RED"),
    (UUID_FIXED, uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
]
OF_BYTES: list[tuple[Any, Any, bytes]] = [
    ("bytes", b"abcd", b"abcd"),
    ({"type": "fixed", "name": "F", "size": 4}, b"abcd", b"abcd"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", b"abc"),
    ({"type": "fixed", "name": "G", "size": 3}, b"abc", b"abc"),
]


@pytest.mark.parametrize("kinds", [OF_TEXT, OF_BYTES], ids=["text", "bytes"])
@pytest.mark.parametrize("nested", [False, True], ids=["field", "nested"])
def test_kinds_of_one_column_are_read_as_one_another(engine: Any, nested: bool, kinds: list[Any]) -> None:
    """Each written by fastavro, by each kind of the reader's."""

    def around(kind: Any) -> dict[str, Any]:
        kind = {"type": "array", "items": ["null", kind]} if nested else kind
        return record({"name": "a", "type": kind})

    for writer, value, expected in kinds:
        payload = io.BytesIO()
        kept = fastavro.parse_schema(json.loads(json.dumps(around(writer))))
        fastavro.schemaless_writer(payload, kept, {"a": [value, None] if nested else value})
        for reader, _, _ in kinds:
            schemas = [parse_schema(json.dumps(around(kind))) for kind in (writer, reader)]
            assert arrow_type(schemas[0]) == arrow_type(schemas[1])
            after = merged(schemas[1], schemas[0])
            assert arrow_type(after) == arrow_type(schemas[1])
            rows = avro_decoder(schemas[0], after, engine=engine).decode(pa.array([payload.getvalue()])).rows
            assert rows.to_pylist() == [{"a": [expected, None] if nested else expected}], (writer, reader)
            assert merged(after, schemas[0]) is after


def test_an_enum_is_read_as_bytes_as_a_string_is(engine: Any) -> None:
    assert read(engine, COLOURS, "bytes", "BLUE")[1] == b"BLUE"


@pytest.mark.parametrize(
    ("writer", "reader", "members"),
    [
        (["int", {**COLOURS, "name": "Paint"}], ["int", COLOURS], ["int", "Colour", "Paint"]),
        (["int", COLOURS], ["int", "string"], ["int", "string", "Colour"]),
        (["int", {"type": "fixed", "name": "F", "size": 3}], ["int", "bytes"], ["int", "bytes", "F"]),
    ],
)
def test_members_of_unions_of_several_types_stay_apart(writer: Any, reader: Any, members: list[str]) -> None:
    after = merged(parse_schema(json.dumps(reader)), parse_schema(json.dumps(writer)))
    assert isinstance(after, Union)
    assert [getattr(one, "name", getattr(one, "kind", None)) for one in after.branches[1:]] == members
    with pytest.raises(IncompatibleSchemas):
        resolve(parse_schema(json.dumps(writer[1])), parse_schema(json.dumps(reader)))
