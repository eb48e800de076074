"""Columns packed into cells come out as they went in: types, nulls, slices, rows that were taken, repeated or left."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.spark.row_cells import CELL, can_pack, pack, unpack

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(HEADER)
SCALARS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int32(): [-(2**31), 5],
    pa.int64(): [-(2**63), 7],
    pa.float32(): [0.5, -1.25],
    pa.float64(): [float("inf"), 1e-300],
    pa.decimal128(38, 4): [Decimal("-1234567890123456789012345678901234.5678"), Decimal("0.0001")],
    pa.date32(): [date(1, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime(2026, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
    pa.string(): ["", "käse"],
    pa.binary(): [b"", b"\x00\xff"],
}


def again(column: pa.Array) -> pa.Array:
    (found,) = unpack(pack([column], len(column)), [column.type])
    found.validate(full=True)
    return found


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_every_type_of_a_value_comes_back(kind: pa.DataType) -> None:
    values = [None, *SCALARS[kind], None, SCALARS[kind][0]]
    structs = [{"a": value, "b": [value]} for value in values]
    for column in (
        pa.array(values, kind),
        pa.array(values, kind).slice(1, 3),
        pa.nulls(3, kind),
        pa.array([], kind),
        pa.array([values, None, [], [None]], pa.list_(kind)),
        pa.array([*structs, None], pa.struct({"a": kind, "b": pa.list_(kind)})),
        pa.array([[("x", value)] for value in values] + [None, []], pa.map_(pa.string(), kind)),
    ):
        assert can_pack(column.type)
        assert again(column).equals(column)


def test_headers_present_null_empty_and_duplicate_come_back() -> None:
    values = [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": b"1"}, {"key": "", "value": None}],
        None,
        [],
        [{"key": "b" * 300, "value": b"\x00" * 3000}, None],
    ]
    column = pa.array(values, HEADERS)
    assert again(column).to_pylist() == values
    assert again(column.slice(1)).to_pylist() == values[1:]


def test_bytes_behind_a_null_list_are_left_out() -> None:
    """Arrow allows a null row to have a range of items."""
    items = pa.array(["left", "out", "kept"])
    column = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), items, mask=pa.array([True, False]))
    assert again(column).to_pylist() == [None, ["kept"]]


def test_cells_may_be_taken_repeated_dropped_and_null() -> None:
    topic, headers = pa.array(["t", "u", None]), pa.array([None, [{"key": "k", "value": None}], []], HEADERS)
    cells = pack([topic, headers], 3)
    taken = cells.take(pa.array([2, 1, None, 1]))
    topics, found = unpack(taken, [topic.type, headers.type])
    assert topics.to_pylist() == [None, "u", None, "u"]
    assert found.to_pylist() == [[], [{"key": "k", "value": None}], None, [{"key": "k", "value": None}]]
    assert [column.to_pylist() for column in unpack(pa.nulls(2, CELL), [topic.type])] == [[None, None]]
    topics, _ = unpack(cells.slice(1, 1), [topic.type, headers.type])
    assert topics.to_pylist() == ["u"]


def test_names_of_nested_fields_may_differ() -> None:
    column = pa.array([[{"key": "k", "value": b"v"}]], HEADERS)
    kind = pa.list_(pa.field("element", HEADER))
    (found,) = unpack(pack([column], 1), [kind])
    assert found.type == kind
    assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("kind", [pa.null(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.struct([])])
def test_types_that_have_no_place_are_known(kind: pa.DataType) -> None:
    assert not can_pack(kind)
    assert not can_pack(pa.list_(kind))


_header = st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)})
_row = st.tuples(
    st.none() | st.text(max_size=5),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.lists(st.none() | _header, max_size=4),
    st.none() | st.lists(st.none() | st.lists(st.none() | st.binary(max_size=3), max_size=3), max_size=3),
)


@given(st.lists(_row, max_size=20), st.data())
def test_any_rows_come_back_in_any_choice(rows: list[Any], data: st.DataObject) -> None:
    kinds = [pa.string(), pa.int64(), HEADERS, pa.list_(pa.list_(pa.binary()))]
    columns = [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=30)) if rows else []
    cells = pack(columns, len(rows)).take(pa.array(chosen, pa.int64()))
    for column, found in zip(columns, unpack(cells, kinds), strict=True):
        found.validate(full=True)
        assert found.to_pylist() == [column.to_pylist()[place] for place in chosen]
