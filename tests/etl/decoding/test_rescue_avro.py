"""Fields of Avro that a table lacks, as JSON text: what fastavro reads of them, exactly, whichever decoder made it."""

from __future__ import annotations

import base64
import copy
import datetime
import io
import json
import math
import struct
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avro_schemas import Branch, Maker, encode, flat
from json_numbers import read, same
from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas
from kseg.segment_reader.payload import rescue
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.avro.types import arrow_type, row_type
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.errors import InvalidSchema, UnsupportedSchema
from kseg.segment_reader.payload.row_schema import to_arrow

RESCUED = "_kseg_rescued"
RESCUE = AvroSchemas(rescue=True)
NOTHING = object()


def member(schema: list[Any], number: int, value: Any) -> Any:
    """A union's value as its column has it."""
    kinds = [n for n, branch in enumerate(schema) if branch != "null"]
    return value if len(kinds) == 1 or value is NOTHING else {f"member{kinds.index(number)}": value}


def whole(value: Any, known: Any, schema: Any) -> Any:
    """value: what was written, which knows a union's branch. known: as fastavro has it."""
    if isinstance(schema, list):
        branch = schema[value.number]
        return None if branch == "null" else member(schema, value.number, whole(value.value, known, branch))
    kind = schema["type"] if isinstance(schema, dict) else schema
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    match kind, known:
        case "record", _:
            return {f["name"]: whole(value[f["name"]], known[f["name"]], f["type"]) for f in schema["fields"]}
        case "array", _:
            return [whole(one, its, schema["items"]) for one, its in zip(value, known, strict=True)]
        case "map", _:
            return {key: whole(one, known[key], schema["values"]) for key, one in value.items()}
        case "float", _:
            return np.float32(known)
        case "fixed", bytes() if logical == "duration":
            return dict(zip(("months", "days", "millis"), struct.unpack("<3I", known), strict=True))
        case "fixed", bytes() if logical == "uuid":
            return str(uuid.UUID(bytes=known))
        case _, bytes():
            return base64.b64encode(known).decode()
        case _, datetime.datetime():
            return known.isoformat().replace("+00:00", "Z")
        case _, datetime.date():
            return known.isoformat()
        case _, datetime.time():
            micros = ((known.hour * 60 + known.minute) * 60 + known.second) * 1_000_000 + known.microsecond
            return micros // 1000 if logical == "time-millis" else micros
        case _, uuid.UUID():
            return str(known)
    return known


def unknown(value: Any, known: Any, writer: Any, reader: Any) -> Any:
    """What of a value the reader's schema lacks."""
    if isinstance(writer, list):
        branch = writer[value.number]
        return member(writer, value.number, unknown(value.value, known, branch, reader[value.number]))
    if isinstance(writer, str) or writer["type"] not in ("record", "array", "map"):
        return NOTHING
    if writer["type"] == "array":
        parts = [unknown(*both, writer["items"], reader["items"]) for both in zip(value, known, strict=True)]
        while parts and parts[-1] is NOTHING:
            parts.pop()
        return [None if part is NOTHING else part for part in parts] or NOTHING
    if writer["type"] == "map":
        found = {key: unknown(value[key], known[key], writer["values"], reader["values"]) for key in value}
    else:
        kept, found = {field["name"]: field["type"] for field in reader["fields"]}, {}
        for field in writer["fields"]:
            name, both = field["name"], (value[field["name"]], known[field["name"]])
            found[name] = unknown(*both, field["type"], kept[name]) if name in kept else whole(*both, field["type"])
    return {key: one for key, one in found.items() if one is not NOTHING} or NOTHING


def reduced(schema: Any, random: Random) -> Any:
    """With fewer fields, at any depth."""
    if isinstance(schema, list):
        return [reduced(branch, random) for branch in schema]
    if isinstance(schema, str):
        return schema
    made = copy.deepcopy(schema)
    match schema["type"]:
        case "array":
            made["items"] = reduced(schema["items"], random)
        case "map":
            made["values"] = reduced(schema["values"], random)
        case "record":
            kept = [field for field in schema["fields"] if random.random() < 0.6] or schema["fields"][:1]
            made["fields"] = [{**field, "type": reduced(field["type"], random)} for field in kept]
    return made


def decoded(writer: Any, reader: Any, payloads: Sequence[bytes | None], form: AvroSchemas = RESCUE) -> DecodedPayloads:
    """By both decoders, which agree."""
    texts = FramedSchemas(json.dumps(reader), ((1, (json.dumps(writer), ())),), form)
    framed = pa.array([None if one is None else b"\0\0\0\0\1" + one for one in payloads], pa.binary())
    fast, plain = (FramedDecoder(texts, engine).decode(framed, None, "value") for engine in ("fast", "reference"))
    fast.rows.validate(full=True)
    assert fast.rows.type == plain.rows.type == form.type(parse_schema(json.dumps(reader)))
    assert fast.status.tolist() == plain.status.tolist()
    assert flat(fast.rows) == flat(plain.rows)
    return fast


@given(st.integers(0, 2**64))
def test_what_the_table_lacks_is_what_fastavro_reads(seed: int) -> None:
    random = Random(seed)
    writer = Maker(random, promotions=False).record()
    writer["fields"].append({"name": "last", "type": "int"})
    reader = reduced(writer, random)
    values = [Maker(random).value(writer) for _ in range(6)]
    payloads = [encode(writer, value, random) for value in values]
    rows = decoded(writer, reader, [*payloads, None])
    assert rows.status.tolist() == [Status.DECODED] * 6 + [Status.NULL]
    *texts, of_null = rows.rows.field(RESCUED).to_pylist()
    assert of_null is None
    for value, payload, text in zip(values, payloads, texts, strict=True):
        known = fastavro.schemaless_reader(io.BytesIO(payload), copy.deepcopy(writer))
        expected = unknown(value, known, writer, reader)
        assert text is None if expected is NOTHING else same(read(text), expected), (text, expected)
    # The columns are what they are without rescued fields.
    alone = decoded(writer, reader, [*payloads, None], AvroSchemas())
    assert flat(pa.StructArray.from_arrays(rows.rows.flatten()[:-1], fields=list(alone.rows.type))) == [
        row if row is not None else dict.fromkeys(alone.rows.type.names) for row in flat(alone.rows)
    ]


@given(st.integers(0, 2**64))
def test_damaged_bytes_have_an_error_or_a_text(seed: int) -> None:
    random = Random(seed)
    writer = Maker(random).record()
    writer["fields"].append({"name": "last", "type": "bytes"})
    good = encode(writer, Maker(random).value(writer), random)
    payloads = [good]
    for _ in range(8):
        bad = bytearray(good)
        bad[random.randrange(len(bad))] ^= 1 << random.randrange(8)
        payloads += [bytes(bad[: random.randrange(len(bad) + 1)]), bytes(bad)]
    rows = decoded(writer, reduced(writer, random), payloads)
    for text in rows.rows.field(RESCUED).to_pylist():
        assert text is None or isinstance(read(text), dict)


@given(st.integers(0, 2**64))
def test_a_schema_as_a_tree_of_fields_is_its_column_type(seed: int) -> None:
    schema = parse_schema(json.dumps(Maker(Random(seed)).record()))
    assert to_arrow(row_type(schema)) == arrow_type(schema)


def record(*fields: tuple[str, Any], name: str = "R") -> Any:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


def written(schema: Any, value: Any) -> bytes:
    return encode(schema, value, Random(1))


ID = ("id", "long")
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("long", 2**63 - 1, "9223372036854775807"),
        ("long", -(2**63), "-9223372036854775808"),
        (DECIMAL, (10**38 - 1).to_bytes(16, "big"), "99999999999999999999.999999999999999999"),
        (DECIMAL, b"\1", "0.000000000000000001"),
        ("float", 0.1, "0.1"),
        ("double", 0.1, "0.1"),
        ("double", -0.0, "-0.0"),
        ("double", 1e300, "1e+300"),
        ("double", math.nan, '"NaN"'),
        ("float", -math.inf, '"-Infinity"'),
        ("bytes", b"\xff\0", '"/wA="'),
        ("string", 'a"\n\\é\u2028', '"a\\"\\n\\\\é\u2028"'),
        ("boolean", True, "true"),
        ("null", None, "null"),
        (MICROS, 1, '"1970-01-01T00:00:00.000001Z"'),
        (MICROS, -62_135_596_800_000_000, '"0001-01-01T00:00:00Z"'),
        (MICROS, -62_135_596_800_000_001, "-62135596800000001"),
        (LOCAL, 253_402_300_800_000, "253402300800000000"),
        (LOCAL, 1_500, '"1970-01-01T00:00:01.500000"'),
        ({"type": "int", "logicalType": "date"}, 19_782, '"2024-02-29"'),
        ({"type": "int", "logicalType": "date"}, 2_932_897, "2932897"),
        ({"type": "int", "logicalType": "time-millis"}, 86_399_999, "86399999"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", '"B"'),
        (["null", "int"], Branch(0, None), "null"),
        (["int", "string"], Branch(1, "a"), '{"member1":"a"}'),
        (["int", "null", "string"], Branch(1, None), "null"),
        ({"type": "array", "items": ["null", "int"]}, [Branch(0, None), Branch(1, 7)], "[null,7]"),
        ({"type": "array", "items": "int"}, [], "[]"),
        ({"type": "map", "values": "int"}, {'a"': 1}, '{"a\\"":1}'),
        ({"type": "map", "values": "int"}, {}, "{}"),
        (record(("a", "int"), ("b", ["null", "int"]), name="S"), {"a": 1, "b": Branch(0, None)}, '{"a":1,"b":null}'),
        (record(name="S"), {}, "{}"),
    ],
)
def test_how_values_are_written(kind: Any, value: Any, text: str) -> None:
    writer = record(ID, ("new", kind))
    rows = decoded(writer, record(ID), [written(writer, {"id": 5, "new": value})])
    assert rows.rows.to_pylist() == [{"id": 5, RESCUED: f'{{"new":{text}}}'}]


def test_fields_are_at_their_places() -> None:
    line = record(("sku", "string"), ("color", "string"), name="Line")
    without = record(("sku", "string"), name="Line")

    def order(kind: Any) -> Any:
        lines = {"type": "array", "items": ["null", kind]}
        return record(ID, ("items", lines), ("by", {"type": "map", "values": "Line"}), ("one", ["null", "Line"]))

    def lines(*colors: str | None) -> list[Branch]:
        return [Branch(0, None) if color is None else Branch(1, {"sku": "s", "color": color}) for color in colors]

    red = {"sku": "s", "color": "red"}
    values = [
        {"id": 1, "items": lines(None, "red", None), "by": {}, "one": Branch(0, None)},
        {"id": 2, "items": [], "by": {"k": red}, "one": Branch(1, red)},
        {"id": 3, "items": lines(None), "by": {}, "one": Branch(0, None)},
    ]
    names = {"Line": line}
    full = order(line)
    payloads = [_written(full, value, names) for value in values]
    rows = decoded(full, order(without), payloads)
    with patch.object(rescue, "_AT_ONCE", 1):  # row by row
        assert decoded(full, order(without), payloads).rows.equals(rows.rows)
    assert rows.rows.field(RESCUED).to_pylist() == [
        '{"items":[null,{"color":"red"}]}',
        '{"by":{"k":{"color":"red"}},"one":{"color":"red"}}',
        None,
    ]
    assert rows.rows.field("items").to_pylist() == [[None, {"sku": "s"}, None], [], [None]]


def _written(schema: Any, value: Any, names: dict[str, Any]) -> bytes:
    """encode() with named types in place of their names."""

    def expanded(node: Any) -> Any:
        if isinstance(node, str):
            return names.get(node, node)
        if isinstance(node, list):
            return [expanded(one) for one in node]
        return {key: expanded(one) if key in ("type", "items", "values") else one for key, one in node.items()}

    return encode({**schema, "fields": [expanded(field) for field in schema["fields"]]}, value, Random(1))


def test_records_of_several_schemas_and_a_field_that_was_renamed() -> None:
    newer = {**record(("identity", "long"), ("note", "string")), "aliases": ["R"]}
    newer["fields"][0]["aliases"] = ["id"]
    writers = {1: record(ID), 2: newer, 3: record(("note", "string"), ("more", "int"))}
    texts = tuple((key, (json.dumps(one), ())) for key, one in writers.items())
    payloads = [
        (2, {"identity": 7, "note": "a"}),
        (1, {"id": 8}),
        (3, {"note": "b", "more": 1}),
        (2, {"identity": 9, "note": ""}),
    ]
    framed = [b"\0" + key.to_bytes(4, "big") + written(writers[key], value) for key, value in payloads]
    for engine in ("fast", "reference"):
        decoder = FramedDecoder(FramedSchemas(json.dumps(record(ID)), texts, RESCUE), engine)
        rows = decoder.decode(pa.array([*framed, None, b"x"], pa.binary()), None, "value").rows.to_pylist()
        assert rows == [
            {"id": 7, RESCUED: '{"note":"a"}'},
            {"id": 8, RESCUED: None},
            {"id": None, RESCUED: '{"note":"b","more":1}'},
            {"id": 9, RESCUED: '{"note":""}'},
            None,
            None,
        ]


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_a_record_that_contains_itself_is_rescued_whole(engine: Any) -> None:
    tree = record(("name", "string"), ("children", {"type": "array", "items": "Tree"}), name="Tree")
    writer = record(ID, ("tree", tree))
    value = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]}
    decoder = RESCUE.decoder(parse_schema(json.dumps(writer)), parse_schema(json.dumps(record(ID))), engine=engine)
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(json.dumps(writer))), {"id": 7, "tree": value})
    (row,) = decoder.decode(pa.array([payload.getvalue()])).rows.to_pylist()
    assert (row["id"], json.loads(row[RESCUED])) == (7, {"tree": value})


def test_rows_need_a_place_for_the_text() -> None:
    with pytest.raises(UnsupportedSchema, match="rescue needs records, and these are values of type list"):
        RESCUE.type(parse_schema('{"type": "array", "items": "int"}'))
    with pytest.raises(InvalidSchema, match="_kseg_rescued"):
        RESCUE.type(parse_schema(json.dumps(record((RESCUED, "int")))))
