"""Records that contain themselves: a struct down to where they begin again, and JSON text there, by both decoders."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.evolution import merged
from kseg.segment_reader.payload.avro.recursion import contains_itself, is_recursive
from kseg.segment_reader.payload.avro.resolution import Missing, narrowed
from kseg.segment_reader.payload.avro.schema import AvroRecord, Schema, parse_schema
from kseg.segment_reader.payload.avro.schema_json import schema_text
from kseg.segment_reader.payload.avro.types import arrow_type, row_type
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.row_schema import to_arrow

Json = Any


def record(record_name: str, /, **fields: Any) -> Json:
    return {
        "type": "record",
        "name": record_name,
        "fields": [{"name": one, "type": kind} for one, kind in fields.items()],
    }


TREE = record("Tree", value="string", left=["null", "Tree"], children={"type": "array", "items": "Tree"})
PERSON = record(
    "Person",
    name="string",
    boss=["null", "Person"],
    team=["null", record("Team", title="string", head=["null", "Person"], by_name={"type": "map", "values": "Person"})],
)
ANY = record(
    "Any",
    of=["null", "string", "double", {"type": "array", "items": "Any"}, {"type": "map", "values": "Any"}, "boolean"],
)


def schema(document: Json) -> Schema:
    return parse_schema(json.dumps(document))


def written(document: Json, value: Any) -> bytes:
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(json.loads(json.dumps(document))), value)
    return payload.getvalue()


def read(
    writer: Json, *payloads: bytes | None, reader: Schema | None = None, missing: Missing = Missing.NULL
) -> DecodedPayloads:
    """By both decoders, which agree."""
    found = [
        avro_decoder(schema(writer), reader, missing=missing, engine=engine).decode(pa.array(payloads, pa.binary()))
        for engine in ("reference", "fast")
    ]
    assert found[0].status.tolist() == found[1].status.tolist()
    assert found[0].rows.equals(found[1].rows)
    found[1].rows.validate(full=True)
    return found[1]


def tree(value: str, left: Any = None, children: Any = ()) -> dict[str, Any]:
    return {"value": value, "left": left, "children": list(children)}


def test_a_record_is_a_struct_down_to_where_it_begins_again() -> None:
    assert str(arrow_type(schema(TREE))) == "struct<value: string, left: string, children: list<item: string>>"
    assert str(arrow_type(schema(PERSON)).field("team").type) == (
        "struct<title: string, head: string, by_name: map<string, string>>"
    )
    for one in (TREE, PERSON, ANY):
        parsed = schema(one)
        assert to_arrow(row_type(parsed)) == arrow_type(parsed)
        assert is_recursive(parsed)
        assert isinstance(parsed, AvroRecord)
        assert contains_itself(parsed)
        assert schema_text(parse_schema(schema_text(parsed))) == schema_text(parsed)
    assert not is_recursive(schema(record("Twice", a=record("One", x="int"), b="One")))


def test_what_is_within_is_the_json_of_what_is_written() -> None:
    value = tree("a", left=tree('b "é"', children=[tree("c")]), children=[tree("d"), tree("e", left=tree("f"))])
    rows = read(TREE, written(TREE, value), None, written(TREE, tree("g"))).rows.to_pylist()
    assert json.loads(rows[0]["left"]) == value["left"]
    assert [json.loads(text) for text in rows[0]["children"]] == value["children"]
    assert rows[0]["left"] == ('{"value":"b \\"é\\"","left":null,"children":[{"value":"c","left":null,"children":[]}]}')
    assert rows[1:] == [None, {"value": "g", "left": None, "children": []}]


def test_records_that_contain_one_another() -> None:
    person = {"name": "p", "boss": None, "team": None}
    value = {"name": "a", "boss": person, "team": {"title": "t", "head": person, "by_name": {"p": person}}}
    (row,) = read(PERSON, written(PERSON, value)).rows.to_pylist()
    assert json.loads(row["boss"]) == person
    ((key, text),) = row["team"]["by_name"]
    assert (json.loads(row["team"]["head"]), key, json.loads(text)) == (person, "p", person)


def random_any(random: Random, depth: int) -> Any:
    kind = random.choice(["null", "string", "double", "boolean", *(["array", "map"] if depth else [])])
    of: Any = {
        "null": None,
        "string": random.choice(["", "é", '\x00"', "x" * 50]),
        "double": random.random(),
        "boolean": True,
    }.get(kind)
    if kind == "array":
        of = [random_any(random, depth - 1) for _ in range(random.randrange(3))]
    elif kind == "map":
        of = {f"k{number}": random_any(random, depth - 1) for number in range(random.randrange(3))}
    return {"of": of}


def as_text(value: Any) -> Any:
    """What the text of such a value says: the member of the union that is written."""
    of = value["of"]
    for number, kind in enumerate((str, float, list, dict, bool)):
        if isinstance(of, kind) and (kind is not float or not isinstance(of, bool)):
            below = [as_text(one) for one in of] if kind is list else of
            below = {key: as_text(one) for key, one in of.items()} if kind is dict else below
            return {"of": {f"member{number}": below}}
    return {"of": None}


def test_values_of_any_shape_as_fastavro_writes_them() -> None:
    random = Random(7)
    values = [random_any(random, 6) for _ in range(400)]
    rows = read(ANY, *(written(ANY, value) for value in values)).rows.to_pylist()
    for row, value in zip(rows, values, strict=True):
        of = value["of"]
        found = [json.loads(text) for text in row["of"]["member2"] or ()] if row["of"] else []
        assert found == ([as_text(one) for one in of] if isinstance(of, list) else [])
        entries = {key: json.loads(text) for key, text in row["of"]["member3"] or ()} if row["of"] else {}
        assert entries == ({key: as_text(one) for key, one in of.items()} if isinstance(of, dict) else {})


def test_scalars_in_the_text_are_exact() -> None:
    kinds = {
        "big": "long",
        "part": "float",
        "raw": "bytes",
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "id": {"type": "fixed", "name": "Id", "size": 2},
        "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
        "wide": ["null", "int", "long"],
    }
    within = record("Node", **kinds, next=["null", "Node"])
    plain = {**kinds, "price": "bytes", "day": "int", "at": "long", "local": "long"}
    inner = {"big": 2**63 - 1, "part": 0.1, "raw": b"\xff", "price": (-1250).to_bytes(2, "big", signed=True)}
    inner |= {
        "day": 19782,
        "at": 1709209815250,
        "local": 1709209815250000,
        "id": b"ab",
        "colour": "BLUE",
        "wide": 2**40,
        "next": None,
    }
    payload = written(record("Node", **plain, next=["null", "Node"]), {**inner, "next": inner})
    (row,) = read(within, payload).rows.to_pylist()
    assert row["next"] == (
        '{"big":9223372036854775807,"part":0.1,"raw":"/w==","price":-12.50,"day":"2024-02-29",'
        '"at":"2024-02-29T12:30:15.250000Z","local":"2024-02-29T12:30:15.250000","id":"YWI=","colour":"BLUE",'
        '"wide":1099511627776,"next":null}'
    )


def bad_payloads() -> Iterator[tuple[str, bytes, Status]]:
    sound = written(TREE, tree("a", left=tree("bcd")))
    yield "text", sound.replace(b"bcd", b"b\xff\xfe"), Status.INVALID_UTF8
    yield "end", sound[:-3], Status.TRUNCATED
    yield "more", sound + b"x", Status.TRAILING_BYTES
    yield "text and more", sound.replace(b"bcd", b"b\xff\xfe") + b"x", Status.TRAILING_BYTES
    deep = tree("x")
    for _ in range(70):
        deep = tree("x", left=deep)
    yield "deep", written(TREE, deep), Status.TOO_DEEP


@pytest.mark.parametrize(
    ("payload", "status"), [pytest.param(one, status, id=name) for name, one, status in bad_payloads()]
)
def test_a_wrong_value_within_is_the_error_of_its_payload_alone(payload: bytes, status: Status) -> None:
    sound = written(TREE, tree("a", left=tree("b"), children=[tree("c")]))
    found = read(TREE, sound, payload, None, sound)
    assert found.status.tolist() == [Status.DECODED, status, Status.NULL, Status.DECODED]
    rows = found.rows.to_pylist()
    assert rows[1] is None
    assert rows[0] == rows[3] != None  # noqa: E711
    assert avro_decoder(schema(TREE)).explain(payload).status is status


def test_a_key_that_is_written_twice_within_is_an_error() -> None:
    inner = b"\x04" + 2 * (b"\x02k" + b"\x00") + b"\x00"  # a map of two entries with one key
    payload = b"\x08\x02\x02k\x08" + inner + b"\x00"
    assert read(ANY, payload).status.tolist() == [Status.DUPLICATE_KEY]


# -- schemas that change


WITH_NOTE = record(
    "Tree", value="string", left=["null", "Tree"], children={"type": "array", "items": "Tree"}, note="int"
)
PLAIN = record("Tree", value="string")


def test_a_new_field_of_the_record_is_a_column_and_in_the_text() -> None:
    first = schema(TREE)
    after = parse_schema(schema_text(merged(first, schema(WITH_NOTE))))
    assert str(arrow_type(after)) == f"{str(arrow_type(first))[:-1]}, note: int32>"
    assert merged(after, schema(WITH_NOTE)) is after
    assert merged(after, first) is after
    assert merged(first, schema(TREE)) is first
    noted = {**tree("b"), "note": 2}
    (row,) = read(WITH_NOTE, written(WITH_NOTE, {**tree("a", left=noted), "note": 1}), reader=after).rows.to_pylist()
    assert (row["note"], json.loads(row["left"])) == (1, noted)
    (row,) = read(TREE, written(TREE, tree("a", left=tree("b"))), reader=after).rows.to_pylist()
    assert (row["note"], json.loads(row["left"])) == (None, tree("b")), "as its own version has written it"


def test_a_record_that_comes_to_contain_itself_has_the_columns_of_one_that_always_did() -> None:
    after = merged(schema(PLAIN), schema(TREE))
    assert arrow_type(after) == arrow_type(schema(TREE))
    again = parse_schema(schema_text(after))
    assert merged(again, schema(TREE)) is again
    (row,) = read(TREE, written(TREE, tree("a", left=tree("b"))), reader=again).rows.to_pylist()
    assert json.loads(row["left"]) == tree("b")
    assert read(PLAIN, written(PLAIN, {"value": "c"}), reader=again).rows.to_pylist()[0]["left"] is None


LEAF = record("Tree", value="string", next=["null", record("Leaf", value="string")])
CHAIN = record("Tree", value="string", next=["null", "Tree"])


@pytest.mark.parametrize(
    ("first", "then", "deeper"), [(CHAIN, LEAF, False), (LEAF, CHAIN, True)], ids=["ceases to", "comes to"]
)
def test_records_of_any_name_are_read_where_the_readers_begins_again(first: Json, then: Json, deeper: bool) -> None:
    """A record of another name was taken for text at the merge, and for another type by the decoders."""
    after = parse_schema(schema_text(merged(schema(first), schema(then), any_name=True)))
    for one in (first, then):
        assert merged(after, schema(one), any_name=True) is after
    (row,) = read(LEAF, written(LEAF, {"value": "a", "next": {"value": "b"}}), reader=after).rows.to_pylist()
    assert row["next"] == ({"value": "b", "next": None} if deeper else '{"value":"b"}')
    value = {"value": "a", "next": {"value": "b", "next": {"value": "c", "next": None}}}
    (row,) = read(CHAIN, written(CHAIN, value), reader=after).rows.to_pylist()
    below = row["next"]["next"] if deeper else json.loads(row["next"])["next"]
    assert (json.loads(below) if deeper else below) == {"value": "c", "next": None}


def test_a_record_of_another_name_is_read_where_one_of_several_around_it_begins_again() -> None:
    """The name is an alias of the record that begins again, and not of those between."""
    reader = record("Tree", value="string", team=["null", record("Team", head=["null", "Tree"], part=["null", "Team"])])
    head, part = record("Head", value="string"), record("Part", size="int")
    writer = record("Tree", value="string", team=["null", record("Team", head=["null", head], part=["null", part])])
    after = parse_schema(schema_text(merged(schema(reader), schema(writer), any_name=True)))
    assert arrow_type(after) == arrow_type(schema(reader))
    value = {"value": "a", "team": {"head": {"value": "b"}, "part": {"size": 3}}}
    (row,) = read(writer, written(writer, value), reader=after).rows.to_pylist()
    assert row["team"] == {"head": '{"value":"b"}', "part": '{"size":3}'}
    assert isinstance(after, AvroRecord)
    assert after.aliases == ("Head",)


def test_a_change_within_a_cycle_changes_no_column_around_it() -> None:
    grown = json.loads(
        json.dumps(PERSON).replace(
            '{"name": "title", "type": "string"}',
            '{"name": "title", "type": "string"}, {"name": "size", "type": "int"}',
        )
    )
    after = merged(schema(PERSON), schema(grown))
    team = arrow_type(after).field("team").type
    assert [field.name for field in team] == ["title", "head", "by_name", "size"]
    assert (team.field("head").type, arrow_type(after).field("boss").type) == (pa.string(), pa.string())
    again = parse_schema(schema_text(after))
    assert arrow_type(again) == arrow_type(after)
    for one in (PERSON, grown):
        assert merged(again, schema(one)) is again


def test_one_record_within_two_others_is_text_in_each_where_it_begins_again() -> None:
    forest = record("Forest", oak=TREE, beech="Tree", elm=["null", "Tree"])
    kinds = [field.type for field in arrow_type(schema(forest))]
    assert kinds == [arrow_type(schema(TREE))] * 3
    value = {"oak": tree("a", left=tree("b")), "beech": tree("c"), "elm": tree("d", children=[tree("e")])}
    (row,) = read(forest, written(forest, value)).rows.to_pylist()
    assert (json.loads(row["oak"]["left"]), json.loads(row["elm"]["children"][0])) == (tree("b"), tree("e"))
    wider = json.loads(
        json.dumps(forest).replace(
            '{"name": "value", "type": "string"}',
            '{"name": "value", "type": "string"}, {"name": "age", "type": "int"}',
            1,
        )
    )
    after = parse_schema(schema_text(merged(schema(forest), schema(wider))))
    assert {field.name: field.type.names[-1] for field in arrow_type(after)} == dict.fromkeys(
        ("oak", "beech", "elm"), "age"
    )
    assert merged(after, schema(wider)) is after


def test_a_reader_of_fewer_fields_and_defaults() -> None:
    reader = merged(schema(record("Tree", value="string")), schema(WITH_NOTE))
    kept = narrowed(schema(TREE), reader)
    assert arrow_type(kept) == arrow_type(schema(TREE))
    own = {"name": "next", "type": ["null", "Tree"], "default": None}
    filled = schema({**PLAIN, "fields": [*PLAIN["fields"], own]})
    (row,) = read(PLAIN, written(PLAIN, {"value": "a"}), reader=filled, missing=Missing.FILL).rows.to_pylist()
    assert row == {"value": "a", "next": None}


def test_lists_of_many_documents_grow_their_buffers() -> None:
    values = [tree("a", children=[tree("x" * 100, children=[tree("y")]) for _ in range(200)]) for _ in range(20)]
    rows = read(TREE, *(written(TREE, value) for value in values)).rows.to_pylist()
    assert [len(row["children"]) for row in rows] == [200] * 20
    assert json.loads(rows[-1]["children"][-1]) == tree("x" * 100, children=[tree("y")])
