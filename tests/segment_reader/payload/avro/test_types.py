"""Avro types as Arrow types, and the table in docs/reference/types.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.avro.types import arrow_type
from kseg.segment_reader.payload.errors import UnsupportedSchema

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "types.md"


def of(schema: Any) -> str:
    return str(arrow_type(parse_schema(json.dumps(schema))))


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, "struct<a: int32>"),
        (["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}], "struct<a: int32>"),
        ("null", "null"),
        ("boolean", "bool"),
        ("int", "int32"),
        ("long", "int64"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        (logical("bytes", "decimal", precision=38, scale=4), "decimal128(38, 4)"),
        (logical("fixed", "decimal", precision=9, name="F", size=4), "decimal128(9, 0)"),
        (logical("bytes", "decimal", precision=39, scale=4), "binary"),
        (logical("fixed", "decimal", precision=40, name="F", size=20), "binary"),
        (logical("string", "uuid"), "string"),
        (logical("fixed", "uuid", name="F", size=16), "string"),
        (logical("int", "date"), "date32[day]"),
        (logical("int", "time-millis"), "int32"),
        (logical("long", "time-micros"), "int64"),
        (logical("long", "timestamp-millis"), "timestamp[us, tz=UTC]"),
        (logical("long", "timestamp-micros"), "timestamp[us, tz=UTC]"),
        (logical("long", "timestamp-nanos"), "int64"),
        (logical("long", "local-timestamp-millis"), "timestamp[us]"),
        (logical("long", "local-timestamp-micros"), "timestamp[us]"),
        (logical("long", "local-timestamp-nanos"), "int64"),
        (logical("fixed", "duration", name="F", size=12), "struct<months: int64, days: int64, millis: int64>"),
        (["null", "int"], "int32"),
        (["int", "null"], "int32"),
        (["int"], "int32"),
        (["null"], "null"),
        (["int", "null", "long"], "int64"),
        (["double", "float"], "double"),
        (["int", "string", "null"], "struct<member0: int32, member1: string>"),
        (["int", "long", "string"], "struct<member0: int32, member1: int64, member2: string>"),
        ([logical("int", "date"), "long"], "struct<member0: date32[day], member1: int64>"),
        ({"type": "array", "items": ["null", "int"]}, "list<item: int32>"),
        ({"type": "map", "values": "int"}, "map<string, int32>"),
    ],
)
def test_each_type_has_a_column_type(schema: Any, kind: str) -> None:
    assert of(schema) == kind


def test_a_record_that_contains_itself_is_text_where_it_begins_again() -> None:
    children = {"type": "array", "items": "Tree"}
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "children", "type": children}]}
    assert of(tree) == "struct<children: list<item: string>>"


def test_more_columns_than_memory_holds_are_refused() -> None:
    schema: Any = "int"
    for n in range(30):
        schema = {
            "type": "record",
            "name": f"R{n}",
            "fields": [{"name": "a", "type": schema}, {"name": "b", "type": f"R{n - 1}" if n else "int"}],
        }
    with pytest.raises(UnsupportedSchema, match="more than 100,000 columns"):
        of(schema)


def test_records_nested_too_deep_by_name_are_refused() -> None:
    names: list[Any] = [{"type": "record", "name": "R0", "fields": []}]
    names += [{"type": "record", "name": f"R{n}", "fields": [{"name": "f", "type": f"R{n - 1}"}]} for n in range(1, 70)]
    schema = parse_schema('"R69"', [json.dumps(name) for name in names])
    with pytest.raises(UnsupportedSchema, match="records are nested more than 64 deep"):
        arrow_type(schema)


def test_the_page_says_the_same() -> None:
    """Rows of the page's table whose first cell is a schema in JSON, and whose second is the Arrow type."""
    text = PAGE.read_text().partition("## Avro")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", text, re.MULTILINE)
    assert len(rows) > 25
    assert [(schema, of(json.loads(schema))) for schema, _ in rows] == rows
