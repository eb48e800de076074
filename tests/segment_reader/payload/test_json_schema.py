"""JSON Schema as columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.ddl import parse_type
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import InvalidSchema, PayloadSchemaError, UnsupportedSchema
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import JsonSchemaType, read_json_schema
from kseg.segment_reader.payload.row_schema import Array, JsonText, Map, RowField, RowRecord, to_arrow

TEXT = ("string", "json")
A = {"title": "A", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"title": "B", "type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
MEMBERS = (("a", A), ("b", B))


def read(field: Any, **top: Any) -> JsonSchemaType:
    return read_json_schema(json.dumps({"type": "object", "properties": {"f": field}, **top}))


def connect(title: str, kind: str, hint: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "title": title, "connect.type": hint, "connect.parameters": parameters}


@pytest.mark.parametrize(
    ("schema", "ddl", "format"),
    [
        ({"type": "string"}, "string", None),
        ({"type": "boolean"}, "boolean", None),
        ({"type": "integer"}, "bigint", None),
        ({"type": "number"}, "double", None),
        ({"type": ["null", "integer"]}, "bigint", None),
        ({"type": ["integer", "number"]}, "double", None),
        ({"type": "string", "format": "date-time"}, "timestamp", "iso8601"),
        ({"type": "string", "format": "date"}, "date", "iso8601"),
        ({"type": "string", "format": "uuid"}, "string", None),
        ({"type": "string", "contentEncoding": "base64"}, "binary", None),
        ({"type": "integer", "connect.type": "int8"}, "tinyint", None),
        ({"type": "integer", "connect.type": "int16"}, "smallint", None),
        ({"type": "integer", "connect.type": "int32"}, "int", None),
        ({"type": "integer", "connect.type": "int64"}, "bigint", None),
        ({"type": "number", "connect.type": "float32"}, "float", None),
        ({"type": "string", "connect.type": "bytes"}, "binary", None),
        (connect("org.apache.kafka.connect.data.Decimal", "number", "bytes", scale="2"), "decimal(38,2)", "base64"),
        (connect("org.apache.kafka.connect.data.Date", "integer", "int32"), "date", "epoch_days"),
        (connect("org.apache.kafka.connect.data.Timestamp", "integer", "int64"), "timestamp", "epoch_millis"),
        (connect("io.debezium.time.MicroTimestamp", "integer", "int64"), "timestamp_ntz", "epoch_micros"),
        ({"enum": ["a", "b", None]}, "string", None),
        ({"const": "a"}, "string", None),
        ({"enum": [1, "b"]}, *TEXT),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "bigint", None),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "date", "iso8601"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, *TEXT),
        ({"oneOf": [A, B]}, "struct<A: struct<a: bigint>, B: struct<b: string>>", None),
        ({"anyOf": [A, {"type": "null"}, B]}, "struct<A: struct<a: bigint>, B: struct<b: string>>", None),
        ({"properties": {"id": {"type": "integer"}}, "oneOf": [A, B]},
         "struct<A: struct<id: bigint, a: bigint>, B: struct<id: bigint, b: string>>", None),
        ({"properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         "struct<a: string>", None),
        ({"oneOf": [{"properties": {"k": {"const": "x"}}}, {"properties": {"k": {"enum": ["y"]}}}]},
         "struct<x: struct<k: string>, y: struct<k: string>>", None),
        # what has no name, no column or no difference stays text
        ({"oneOf": [A, {"type": "string", "title": "S"}]}, *TEXT),
        ({"oneOf": [A, {**B, "title": "no name of a column"}]}, *TEXT),
        ({"oneOf": [A, {**B, "title": "a"}]}, *TEXT),
        ({"oneOf": [A, {**A, "title": "B"}]}, *TEXT),
        ({"oneOf": [A, B, {"title": "C", "properties": {}}]}, *TEXT),
        ({"oneOf": [A, {"$ref": "#/nowhere"}]}, *TEXT),
        ({"oneOf": [A, B], "anyOf": [A, B]}, *TEXT),
        ({"type": ["integer", "string"]}, *TEXT),
        ({"type": "null"}, *TEXT),
        ({}, *TEXT),
        (True, *TEXT),
        ({"type": "object"}, *TEXT),
        ({"type": "object", "additionalProperties": True}, *TEXT),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>", None),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>", None),
        ({"properties": {"a": {"type": "integer"}, "never": False}}, "struct<a: bigint>", None),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]},
         "struct<a: bigint, b: string>", None),
    ],
)  # fmt: skip
def test_a_schema_has_a_type_and_a_format(schema: Any, ddl: str, format: str | None) -> None:
    found = read(schema)
    assert found.type.field("f").type == parse_type(ddl)
    assert found.formats.get("f") == format
    options = JsonOptions(formats=found.formats, choices=found.choices, unknown_fields="ignore")
    json_decoder(found.type, options, engine="reference")


def test_references_lead_to_definitions() -> None:
    address = {"type": "object", "properties": {"zip code": {"type": "string"}, "since": {"$ref": "#/$defs/a~1b%20c"}}}
    definitions = {"Address": address, "a/b c": {"type": "string", "format": "date"}}
    found = read({"type": "array", "items": {"$ref": "#/$defs/Address"}}, **{"$defs": definitions})
    assert found.type.field("f").type == parse_type("array<struct<`zip code`: string, since: date>>")
    assert dict(found.formats) == {"f[].since": "iso8601"}
    nullable = {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Address"}]}
    found = read(nullable, definitions={"Address": {"properties": {"x": {"type": "integer"}}}})
    assert found.type.field("f").type == parse_type("struct<x: bigint>")


def test_members_of_a_choice_are_called_by_their_references() -> None:
    """In another order or with another member, each is still the same column."""
    shapes = {"Circle": {**A, "title": "a round one"}, "Square": {**B, "title": "Circle"}}
    one, other = {"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}
    found = read({"oneOf": [other, one]}, **{"$defs": shapes})
    assert found.type.field("f").type == parse_type("struct<Square: struct<b: string>, Circle: struct<a: bigint>>")
    own = json.dumps({"oneOf": [{"$ref": "shop/order.json"}, {"$ref": "payment.json"}]})
    others = {"shop/order.json": json.dumps({**A, "title": "Order"}), "payment.json": json.dumps({**B, "title": "a b"})}
    columns = {"Order": parse_type("struct<a: bigint>"), "payment.json": parse_type("struct<b: string>")}
    assert read_json_schema(own, others).type == pa.struct(columns)


def test_a_choice_below_a_choice_is_a_struct_or_text_with_formats_of_its_own() -> None:
    day = {"title": "Day", "properties": {"on": {"type": "string", "format": "date"}}, "required": ["on"]}
    sound = {**A, "properties": {"a": {"oneOf": [day, B]}}}
    unsound = {**B, "properties": {"b": {"oneOf": [day, {"type": "integer"}]}}}
    found = read({"oneOf": [sound, unsound]})
    kind = "struct<A: struct<a: struct<Day: struct<on: date>, B: struct<b: string>>>, B: struct<b: string>>"
    assert found.type.field("f").type == parse_type(kind)
    assert dict(found.formats) == {"f.A.a.Day.on": "iso8601", "f.B.b": "json"}
    assert set(found.choices) == {"f", "f.A.a"}
    none = read({"oneOf": [sound, {"type": "integer"}]})
    assert (dict(none.formats), dict(none.choices)) == ({"f": "json"}, {})


def test_a_choice_that_contains_itself_is_text_there() -> None:
    leaf = {"properties": {"value": {"type": "integer"}}, "required": ["value"]}
    node = {"properties": {"left": {"$ref": "#/$defs/Tree"}}, "required": ["left"]}
    tree = {"oneOf": [{"$ref": "#/$defs/Leaf"}, {"$ref": "#/$defs/Node"}]}
    found = read({"$ref": "#/$defs/Tree"}, **{"$defs": {"Leaf": leaf, "Node": node, "Tree": tree}})
    kind = "struct<Leaf: struct<value: bigint>, Node: struct<left: string>>"
    assert found.type.field("f").type == parse_type(kind)
    assert dict(found.formats) == {"f.Node.left": "json"}


def test_choices_that_double_with_each_level_are_text() -> None:
    """2^40 columns in a few kilobytes."""
    levels = 40
    both = {
        str(n): {"oneOf": [{**its, "properties": {name: {"$ref": f"#/$defs/{n + 1}"}}} for name, its in MEMBERS]}
        for n in range(levels)
    }
    found = read({"$ref": "#/$defs/0"}, **{"$defs": {**both, str(levels): A}})
    assert (found.type.field("f").type, dict(found.formats), dict(found.choices)) == (pa.string(), {"f": "json"}, {})


def test_choices_are_text_where_they_are_not_read() -> None:
    text = json.dumps({"type": "object", "properties": {"f": {"oneOf": [A, B]}}})
    found = read_json_schema(text, choices=False)
    assert (found.type, dict(found.formats), dict(found.choices)) == (pa.struct({"f": pa.string()}), {"f": "json"}, {})


def test_references_lead_to_other_schemas() -> None:
    own = json.dumps(
        {"type": "object", "properties": {"a": {"$ref": "address.json#/$defs/a"}, "b": {"$ref": "b.json"}}}
    )
    others = {
        "address.json": json.dumps(
            {"$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/n"}}}, "n": {"type": "integer"}}}
        ),
        "b.json": json.dumps({"type": "boolean"}),
    }
    assert read_json_schema(own, others).type == pa.struct({"a": parse_type("struct<n: bigint>"), "b": pa.bool_()})


def test_a_type_that_contains_itself_is_text_there() -> None:
    node = {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/definitions/Node"}}}
    found = read({"$ref": "#/definitions/Node"}, definitions={"Node": node})
    assert found.type.field("f").type == parse_type("struct<n: bigint, next: string>")
    assert dict(found.formats) == {"f.next": "json"}
    itself = read({"type": "array", "items": {"$ref": "#"}})
    assert itself.type.field("f").type == parse_type("array<string>")


def test_schemas_that_are_joined_over_and_over_are_refused() -> None:
    """Each level has the next one twice: a few hundred bytes took hours."""
    levels = 40
    both = {str(n): {"allOf": 2 * [{"$ref": f"#/definitions/{n + 1}"}]} for n in range(levels)}
    text = {"allOf": [{"$ref": "#/definitions/0"}], "definitions": {**both, str(levels): {"type": "object"}}}
    with pytest.raises(UnsupportedSchema, match="more than 100,000 parts of allOf"):
        read_json_schema(json.dumps(text))


def test_a_schema_that_is_joined_several_ways_is_read() -> None:
    levels = 10
    both = {str(n): {"allOf": 2 * [{"$ref": f"#/definitions/{n + 1}"}]} for n in range(levels)}
    last = {"type": "object", "properties": {"x": {"type": "integer"}}}
    found = read({"$ref": "#/definitions/0"}, definitions={**both, str(levels): last})
    assert found.type.field("f").type == parse_type("struct<x: bigint>")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", InvalidSchema),
        ("true", UnsupportedSchema),
        ('{"type": "string"}', UnsupportedSchema),
        ('{"oneOf": [{"$ref": "#/nope"}, {"title": "A", "properties": {"a": {}}}]}', InvalidSchema),
        ('{"type": "object"}', UnsupportedSchema),
        ('{"type": "object", "additionalProperties": {"type": "string"}}', UnsupportedSchema),
        ('{"properties": {"f": {"$ref": "#/nope"}}}', InvalidSchema),
        ('{"properties": {"f": {"$ref": "other.json"}}}', InvalidSchema),
        ('{"properties": {"f": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}', InvalidSchema),
        ('{"properties": {"f": {"$ref": "#name"}}}', InvalidSchema),
    ],
)
def test_what_has_no_columns_is_refused(text: str, error: type[PayloadSchemaError]) -> None:
    with pytest.raises(error):
        read_json_schema(text)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([A, {**A, "title": "B"}], "a choice, and A and B have no const, enum or required property that differs"),
        (
            [A, {"properties": {"b": {}}, "required": ["b"]}],
            "a choice, and the member at 1 has no $ref, title or const",
        ),
        ([A, {"type": "string", "title": "S", "required": ["x"]}], "a choice, and S is no object with properties"),
    ],
)
def test_a_choice_at_the_top_that_has_no_columns_is_refused_with_the_reason(members: Any, words: str) -> None:
    with pytest.raises(UnsupportedSchema) as refused:
        read_json_schema(json.dumps({"oneOf": members}))
    assert words in refused.value.reason


def test_a_value_without_a_type_is_kept_as_it_is_written() -> None:
    found = read({})
    options = JsonOptions(formats=found.formats, unknown_fields="ignore")
    decoder = json_decoder(found.type, options, engine="reference")
    payloads = [b'{"f": {"a" : [1.50, "x"]}}', b'{"f": "t"}', b'{"f": null}', b"{}", b'{"f": [}']
    decoded = decoder.decode(pa.array(payloads, pa.binary()))
    assert decoded.rows.flatten()[0].to_pylist() == ['{"a" : [1.50, "x"]}', '"t"', None, None, None]
    assert decoded.status.tolist() == [0, 0, 0, 0, Status.MALFORMED]


def test_columns_of_json_text_are_told_apart_from_plain_text() -> None:
    several = {"type": ["string", "integer"]}
    made = read(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b c": several,
                "l": {"type": "array", "items": several},
                "m": {"type": "object", "additionalProperties": several},
            },
        }
    )
    fields = (
        RowField("a", pa.string()),
        RowField("b c", JsonText()),
        RowField("l", Array(JsonText())),
        RowField("m", Map(pa.string(), JsonText())),
    )
    assert made.columns == RowRecord((RowField("f", RowRecord(fields)),))
    assert to_arrow(made.columns) == made.type


def node(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": {"type": "integer"}, **more}}


def items(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def values(kind: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": kind}


TO_A, TO_B = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}
LEAF = {"n": 3}
#: Definitions, the columns of A beside `n`, and a document's values of them.
RECURSIVE: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "itself": ({"A": node(a=TO_A)}, "a: string", {"a": {"n": 2, "a": LEAF}}),
    "in an array": ({"A": node(a=items(TO_A))}, "a: array<string>", {"a": [{"n": 2, "a": [LEAF, None]}, None]}),
    "in a map": ({"A": node(a=values(TO_A))}, "a: map<string,string>", {"a": {"x": {"n": 2, "a": {"y": LEAF}}}}),
    "or null": ({"A": node(a={"oneOf": [{"type": "null"}, TO_A]})}, "a: string", {"a": {"n": 2, "a": None}}),
    "in a choice": (
        {"A": node(a={"anyOf": [TO_A, TO_B]}), "B": node(m={"type": "integer"})},
        "a: string",
        {"a": {"n": 2, "a": {"m": 1}}},
    ),
    "one another": (
        {"A": node(b=TO_B), "B": node(a=TO_A)},
        "b: struct<n: bigint, a: string>",
        {"b": {"n": 2, "a": {"n": 3, "b": {"n": 4, "a": LEAF}}}},
    ),
    "one another in arrays": (
        {"A": node(b=items(TO_B)), "B": node(a=items(TO_A))},
        "b: array<struct<n: bigint, a: array<string>>>",
        {"b": [{"n": 2, "a": [{"n": 3, "b": [{"n": 4, "a": []}]}, LEAF]}]},
    ),
    "one another in maps": (
        {"A": node(b=values(TO_B)), "B": node(a=values(TO_A))},
        "b: map<string,struct<n: bigint, a: map<string,string>>>",
        {"b": {"x": {"n": 2, "a": {"y": {"n": 3, "b": {"z": LEAF}}}}}},
    ),
    "one another in a choice": (
        {"A": node(b={"anyOf": [TO_B, {"$ref": "#/$defs/C"}]}), "B": node(a=TO_A), "C": node(m={"type": "integer"})},
        "b: string",
        {"b": {"n": 2, "a": {"n": 3, "b": {"m": 4}}}},
    ),
}


def plain(value: Any, kind: pa.DataType) -> Any:
    """A row's value as Python's json reads the document."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: found for field in kind if (found := plain(value[field.name], field.type)) is not None}
    if pa.types.is_map(kind):
        return {key: plain(one, kind.item_type) for key, one in value}
    if pa.types.is_list(kind):
        return [plain(one, kind.value_type) for one in value]
    return json.loads(value) if pa.types.is_string(kind) else value


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("way", RECURSIVE)
def test_a_type_that_comes_back_to_itself_is_text_where_it_begins_again(way: str, engine: Any) -> None:
    defs, column, written = RECURSIVE[way]
    made = read_json_schema(json.dumps({**TO_A, "$defs": defs}))
    assert made.type == parse_type(f"struct<n: bigint, {column}>")
    decoder = json_decoder(made.type, JsonOptions(formats=made.formats, choices=made.choices), engine=engine)
    documents: list[dict[str, Any]] = [{"n": 1, **written}, {"n": 1}]
    decoded = decoder.decode(pa.array([json.dumps(one).encode() for one in documents], pa.binary()))
    assert decoded.status.tolist() == [Status.DECODED] * 2
    assert [plain(row, made.type) for row in decoded.rows.to_pylist()] == documents
