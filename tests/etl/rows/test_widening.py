from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kseg.etl.rows.widening import can_widen, can_write, fit

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
SCALARS = [
    *INTEGERS,
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 0),
    pa.decimal128(12, 2),
    pa.decimal128(20, 0),
    pa.decimal128(38, 18),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.string(),
    pa.binary(),
    pa.bool_(),
]

# Delta protocol, "Type Widening", by type: what it may become, of the types above.
ALLOWED = {
    pa.int8(): [*INTEGERS[1:], pa.float64(), *SCALARS[6:10]],
    pa.int16(): [*INTEGERS[2:], pa.float64(), *SCALARS[6:10]],
    pa.int32(): [pa.int64(), pa.float64(), *SCALARS[6:10]],
    pa.int64(): [pa.decimal128(20, 0), pa.decimal128(38, 18)],
    pa.float32(): [pa.float64()],
    pa.decimal128(10, 0): [pa.decimal128(12, 2), pa.decimal128(20, 0), pa.decimal128(38, 18)],
    pa.decimal128(12, 2): [pa.decimal128(38, 18)],
    pa.decimal128(20, 0): [pa.decimal128(38, 18)],
    pa.date32(): [pa.timestamp("us")],
}


@pytest.mark.parametrize("before", SCALARS, ids=str)
def test_a_type_becomes_what_delta_allows_and_values_stay_exact(before):
    assert [after for after in SCALARS if can_widen(before, after)] == ALLOWED.get(before, [])
    for after in ALLOWED.get(before, []):
        one = pa.array([100], before) if not pa.types.is_date32(before) else pa.array([100], pa.int32()).cast(before)
        assert pc.cast(pc.cast(one, after), before).equals(one)


def nested(kind: pa.DataType) -> pa.DataType:
    inner = pa.struct([("n", kind), ("note", pa.string())])
    return pa.struct([("a", kind), ("list", pa.list_(inner)), ("map", pa.map_(kind, inner))])


def test_nested_types_are_widened_where_they_are():
    found = fit(nested(pa.int64()), nested(pa.int32()), "s")
    assert [change.name for change in found.widened] == [
        "s.a",
        "s.list.element.n",
        "s.map.key",
        "s.map.value.n",
    ]
    assert str(found.widened[1]) == "s.list.element.n from int to bigint"
    assert (found.grows, found.whole) == (False, fit(nested(pa.int64()), nested(pa.int64())).whole)
    narrower = fit(nested(pa.int32()), nested(pa.int64()))
    assert (narrower.widened, narrower.written) == ((), found.whole)


def test_structs_grow_and_become_wider_at_once():
    rows = pa.struct([("a", pa.int64()), ("b", pa.string())])
    found = fit(rows, pa.struct([("a", pa.int32())]), "s")
    assert (found.grows, found.whole, found.written) == (True, rows, rows)
    found = fit(pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32()), ("b", pa.string())]), "s")
    assert (found.grows, found.whole, found.written) == (False, rows, pa.struct([("a", pa.int64())]))


def test_names_with_other_signs_are_quoted():
    (change,) = fit(pa.struct([("x-y", pa.int64())]), pa.struct([("x-y", pa.int32())]), "s").widened
    assert change.name == "s.`x-y`"


@pytest.mark.parametrize(
    ("rows", "table", "fits"),
    [
        (pa.int16(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.int32(), pa.float64(), False),
        (pa.decimal128(5, 2), pa.decimal128(7, 3), True),
        (pa.decimal128(5, 2), pa.decimal128(5, 3), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), False),
        (pa.list_(pa.field("item", pa.int8())), pa.list_(pa.field("element", pa.int8(), nullable=False)), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())]), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8()), ("a", pa.int8())]), False),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), pa.field("b", pa.int8(), nullable=False)]), False),
        (pa.struct([("a", pa.int8()), ("b", pa.int8())]), pa.struct([("a", pa.int8())]), False),
    ],
)
def test_values_are_widened_never_narrowed(rows, table, fits):
    assert can_write(rows, table) is fits
