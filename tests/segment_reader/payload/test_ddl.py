"""Spark's DDL types: what they become, and errors that name the column and the character."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.payload.ddl import DEEPEST, PRIMITIVES, parse_columns, parse_type, quoted, type_text
from kseg.segment_reader.payload.errors import InvalidSchema

TYPES = {
    "BIGINT": pa.int64(),
    " Decimal ( 12 , 3 ) ": pa.decimal128(12, 3),
    "dec": pa.decimal128(10, 0),
    "numeric(5)": pa.decimal128(5, 0),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array<array<int>>": pa.list_(pa.list_(pa.int32())),
    "map<string, map<string,date>>": pa.map_(pa.string(), pa.map_(pa.string(), pa.date32())),
    "struct<>": pa.struct([]),
    "struct<a:int,B string , `c``,d` :struct<array: array<byte>>>": pa.struct(
        [
            pa.field("a", pa.int32()),
            pa.field("B", pa.string()),
            pa.field("c`,d", pa.struct([pa.field("array", pa.list_(pa.int8()))])),
        ]
    ),
}

BAD = {
    "": "a type expected, not the end",
    "bigint x": "character 8 of 'bigint x': 'x' follows",
    "money": "character 1 of 'money': unknown type 'money'; known are boolean",
    "varchar(10)": "write string",
    "array<int": "'>' expected after the element's type, not the end",
    "array int": "'<' expected after array, not 'int'",
    "map<int,int>": "character 5 of 'map<int,int>': a map's key must be string",
    "map<string>": "',' expected after the key's type",
    "decimal(39,0)": "precision 39 is not in 1",
    "decimal(0)": "precision 0 is not in 1",
    "decimal(5,6)": "scale 6 is larger than precision 5",
    "decimal(5,-1)": "a number expected, not '-'",
    "decimal(٣)": "a number expected",
    "struct<a int not null>": "all fields are nullable",
    "struct<a int comment 'x'>": "leave the rest out",
    "struct<a int, a string>": "character 15 of 'struct<a int, a string>': field a is declared twice",
    "struct<a int,>": "a field's name expected, not '>'",
    "struct<`a int>": "a backquoted name without its end",
    "array<é>": "character 7 of 'array<é>': a type expected, not 'é'",
    "array<" * (DEEPEST + 1) + "int" + ">" * (DEEPEST + 1): f"nested more than {DEEPEST} deep",
}


@pytest.mark.parametrize("text", TYPES)
def test_a_type_is_parsed(text: str) -> None:
    assert parse_type(text) == TYPES[text]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_type_is_an_error_that_names_the_place(text: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        parse_columns({"id": "bigint", "total": text})
    assert str(raised.value).startswith("column total, character ")
    assert BAD[text] in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.place, again.reason) == (raised.value.place, raised.value.reason)


def test_columns_are_nullable_fields_in_order() -> None:
    columns = parse_columns({"b": "int", "a b": "string"})
    assert columns == pa.struct([pa.field("b", pa.int32()), pa.field("a b", pa.string())])


def written(kind: pa.DataType) -> str:
    """An Arrow type as DDL."""
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"struct<{', '.join(f'{quoted(each.name)}: {written(each.type)}' for each in fields)}>"
    if pa.types.is_list(kind):
        return f"array<{written(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<string,{written(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next(name for name, primitive in PRIMITIVES.items() if primitive == kind)


def structs(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.dictionaries(st.text(min_size=1, max_size=5), kinds, max_size=4)
    return fields.map(lambda named: pa.struct([pa.field(name, kind) for name, kind in named.items()]))


KINDS = st.recursive(
    st.sampled_from(list(PRIMITIVES.values()))
    | st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda ps: pa.decimal128(max(ps), ps[1])),
    lambda kinds: kinds.map(pa.list_) | kinds.map(lambda kind: pa.map_(pa.string(), kind)) | structs(kinds),
    max_leaves=8,
)


@given(KINDS)
def test_what_is_written_is_parsed_again(kind: pa.DataType) -> None:
    assert parse_type(written(kind)) == kind


@given(st.text(alphabet="struc<>array,map :`bigint()int0123 ", max_size=30))
def test_any_text_is_a_type_or_a_typed_error(text: str) -> None:
    try:
        found = parse_type(text)
    except InvalidSchema as error:
        place = error.place
    else:
        assert parse_type(written(found)) == found
        return
    assert place.startswith("character ")


def _types() -> st.SearchStrategy[pa.DataType]:
    decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))
    names = st.text(min_size=1, max_size=4)
    return st.recursive(
        st.sampled_from(list(PRIMITIVES.values())) | decimals,
        lambda inner: (
            inner.map(pa.list_)
            | inner.map(lambda value: pa.map_(pa.string(), value))
            | st.dictionaries(names, inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))
        ),
        max_leaves=6,
    )


@given(_types())
def test_a_types_text_is_parsed_to_the_type(kind: pa.DataType) -> None:
    assert parse_type(type_text(kind)) == kind


def test_the_text_of_types_is_sparks_usual_one() -> None:
    fields = [("a b", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("n", pa.map_(pa.int32(), pa.int16()))]
    assert type_text(pa.struct(fields)) == "struct<`a b`: bigint, at: timestamp, n: map<int,smallint>>"
    with pytest.raises(ValueError, match="uint64"):
        type_text(pa.list_(pa.uint64()))
