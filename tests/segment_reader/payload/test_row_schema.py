"""Columns that grow with their writers' schemas, and rows of one schema with the columns of another."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.payload.ddl import type_name
from kseg.segment_reader.payload.errors import IncompatibleSchemas, InvalidSchema
from kseg.segment_reader.payload.row_schema import (
    Array,
    JsonText,
    Map,
    RowField,
    RowRecord,
    RowType,
    UnknownText,
    aligned,
    from_arrow,
    merged,
    parse_schema,
    schema_text,
    to_arrow,
)

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
SCALARS = [pa.bool_(), INT, LONG, pa.float64(), TEXT, pa.binary(), pa.date32(), pa.decimal128(20, 3)]
SCALARS += [pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.int8(), pa.float32()]
JSON = JsonText()


def record(**fields: Any) -> RowRecord:
    return RowRecord(tuple(RowField(name, kind) for name, kind in fields.items()))


def records(inner: st.SearchStrategy[RowType]) -> st.SearchStrategy[RowRecord]:
    return st.dictionaries(st.sampled_from("abcdef`ä"), inner, min_size=1, max_size=4).map(lambda d: record(**d))


TYPES = st.recursive(
    st.sampled_from([*SCALARS, JSON]),
    lambda inner: inner.map(Array) | inner.map(lambda value: Map(TEXT, value)) | records(inner),
    max_leaves=8,
)


@given(records(TYPES))
def test_columns_come_back_from_their_text_and_their_arrow_type(schema: RowRecord) -> None:
    assert parse_schema(schema_text(schema)) == schema
    assert to_arrow(from_arrow(to_arrow(schema))) == to_arrow(schema)
    assert merged(schema, schema) is schema


@pytest.mark.parametrize(
    "text", ["", "{}", '"bigint"', '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}', "[" * 9999]
)
def test_text_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="another format"):
        parse_schema(text)


def test_fields_are_added_at_any_depth_behind_those_that_are_there() -> None:
    reader = record(id=LONG, at=Array(record(b=TEXT)), by=Map(TEXT, record(x=INT)))
    writer = record(new=TEXT, by=Map(TEXT, record(y=INT)), at=Array(record(a=INT, b=TEXT)), id=INT)
    made = record(id=LONG, at=Array(record(b=TEXT, a=INT)), by=Map(TEXT, record(x=INT, y=INT)), new=TEXT)
    assert merged(reader, writer) == made
    assert merged(reader, writer, add_fields=False) is reader
    assert merged(made, writer) is made


def test_fields_with_numbers_are_found_by_them() -> None:
    reader = RowRecord((RowField("id", LONG, 1), RowField("note", TEXT, 2)))
    renamed = RowRecord((RowField("remark", TEXT, 2), RowField("more", INT, 7)))
    made = RowRecord((RowField("id", LONG, 1), RowField("note", TEXT, 2), RowField("more", INT, 7)))
    assert merged(reader, renamed) == made
    assert parse_schema(schema_text(made)) == made
    with pytest.raises(IncompatibleSchemas, match=r"note: .*another number"):
        merged(reader, RowRecord((RowField("note", TEXT, 3),)))
    rows = pa.array([{"remark": "a", "more": 1}], to_arrow(renamed))
    assert aligned(rows, renamed, reader).to_pylist() == [{"id": None, "note": "a"}]


@pytest.mark.parametrize(
    ("reader", "writer"), [(INT, LONG), (TEXT, INT), (LONG, pa.float64()), (TEXT, Array(TEXT)), (record(a=INT), TEXT)]
)
def test_a_type_that_would_change_is_refused_with_both(reader: RowType, writer: RowType) -> None:
    with pytest.raises(IncompatibleSchemas) as refused:
        merged(record(a=record(b=reader)), record(a=record(b=writer)))
    assert refused.value.place == "a.b"
    assert (
        f"{type_name(to_arrow(writer))} does not fit the column, which is {type_name(to_arrow(reader))}"
        in refused.value.reason
    )


@pytest.mark.parametrize("wrapped", [lambda kind: kind, Array, lambda kind: Map(TEXT, kind)])
def test_json_text_is_no_plain_text(wrapped: Any) -> None:
    """One column would have `A-17` and `"A-17"`."""
    plain, json = record(a=wrapped(TEXT)), record(a=wrapped(JSON))
    with pytest.raises(IncompatibleSchemas, match="JSON text does not fit the column, which is string"):
        merged(plain, json, widen=True)
    with pytest.raises(IncompatibleSchemas, match="string does not fit the column, which is JSON text"):
        merged(json, plain, widen=True)
    rows = pa.array([{"a": None}], to_arrow(json))
    assert aligned(rows, json, record(a=wrapped(JSON), b=TEXT)).to_pylist() == [{"a": None, "b": None}]


@pytest.mark.parametrize("kind", [TEXT, JSON])
def test_a_stored_string_becomes_what_its_writer_has(kind: RowType) -> None:
    """Older texts have one word for text and JSON text."""
    stored = parse_schema('{"columns":[{"name":"a","type":{"array":"string"}}]}')
    assert stored == record(a=Array(UnknownText()))
    assert schema_text(stored) == '{"columns":[{"name":"a","type":{"array":"string"}}]}'
    assert to_arrow(stored) == to_arrow(record(a=Array(TEXT)))
    writer = record(a=Array(kind))
    assert merged(stored, writer) == merged(writer, stored) == writer
    rows = pa.array([{"a": ["x"]}], to_arrow(writer))
    assert aligned(rows, writer, stored).to_pylist() == [{"a": ["x"]}]


def test_a_table_that_is_not_there_yet_gets_the_wider_type() -> None:
    assert merged(record(a=INT, f=pa.float32()), record(a=LONG, f=pa.float64()), widen=True) == record(
        a=LONG, f=pa.float64()
    )
    with pytest.raises(IncompatibleSchemas):
        merged(record(a=INT), record(a=TEXT), widen=True)


def test_rows_get_the_readers_columns_and_keep_their_places() -> None:
    inner = record(n=INT, gone=TEXT)
    writer = record(a=Array(inner), m=Map(TEXT, inner), s=inner, gone=INT, n=INT)
    wider = record(new=TEXT, n=LONG)
    reader = record(n=LONG, new=TEXT, s=wider, a=Array(wider), m=Map(TEXT, wider))
    one = {"n": 1, "gone": "x"}
    values = [
        {"a": [one, None, one], "m": [("k", one)], "s": one, "gone": 1, "n": 5},
        None,
        {"a": [], "m": [], "s": None, "gone": None, "n": None},
        {"a": None, "m": None, "s": one, "gone": 2, "n": 6},
        {"a": [one], "m": [("j", None), ("k", one)], "s": one, "gone": 3, "n": 7},
    ]
    to = {"new": None, "n": 1}
    wanted = [
        {"n": 5, "new": None, "s": to, "a": [to, None, to], "m": [("k", to)]},
        None,
        {"n": None, "new": None, "s": None, "a": [], "m": []},
        {"n": 6, "new": None, "s": to, "a": None, "m": None},
        {"n": 7, "new": None, "s": to, "a": [to], "m": [("j", None), ("k", to)]},
    ]
    rows = pa.array(values, to_arrow(writer))
    for start in range(len(values) + 1):
        made = aligned(rows.slice(start), writer, reader)
        made.validate(full=True)
        assert made.type == to_arrow(reader)
        assert made.to_pylist() == wanted[start:]
    assert aligned(rows, writer, writer) is rows
