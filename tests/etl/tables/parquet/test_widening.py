from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import align, type_changes
from kseg.etl.tables.parquet.schema import COMMENT, SinkSchema
from kseg.etl.tables.parquet.widening import can_widen, fit

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


def sink(**kinds: pa.DataType) -> SinkSchema:
    return SinkSchema(pa.schema(list(kinds.items())), None)


def test_what_must_become_wider_is_refused_unless_it_may_be():
    table = pa.schema([("ID", pa.int32()), ("n", pa.int64())])
    with pytest.raises(IncompatibleSchema, match=r"set sink\.widen: true") as refused:
        type_changes(sink(id=pa.int64(), n=pa.int32()), table, (), table="t", widen=False)
    assert "id: bigint" in str(refused.value)
    (change,) = type_changes(sink(id=pa.int64(), n=pa.int32()), table, (), table="t", widen=True)
    assert (change.path, change.after) == (("ID",), pa.int64())
    with pytest.raises(IncompatibleSchema, match=r"set sink\.widen: true"):
        align(sink(id=pa.int64()), table, (), table="t")
    with pytest.raises(IncompatibleSchema) as refused:
        align(sink(id=pa.string()), table, (), table="t")
    assert "sink.widen" not in str(refused.value)


@pytest.mark.parametrize(
    ("made_by", "before", "after", "allowed"),
    [
        ("bucket(4, id)", pa.int32(), pa.int64(), False),
        ("bucket(4, id)", pa.int8(), pa.int32(), True),
        ("bucket(4, other)", pa.int32(), pa.int64(), True),
        ("day(id)", pa.date32(), pa.timestamp("us"), True),
    ],
)
def test_a_column_that_a_bucket_is_made_of_keeps_its_type(made_by, before, after, allowed):
    part = pa.field("part", pa.int32(), metadata={COMMENT: f"made by kseg: {made_by}".encode()})
    table = pa.schema([pa.field("id", before), part])
    if allowed:
        assert type_changes(sink(id=after), table, ["part"], table="t", widen=True)
    else:
        with pytest.raises(IncompatibleSchema, match="land in a new table"):
            type_changes(sink(id=after), table, ["part"], table="t", widen=True)


@pytest.mark.parametrize(
    ("rows", "table", "allowed"),
    [(pa.int32(), pa.int64(), False), (pa.int64(), pa.int64(), True), (pa.int8(), pa.int32(), True)],
)
def test_a_bucket_is_made_of_the_tables_type(rows, table, allowed):
    """An int has another hash than the bigint of the same value."""
    part = pa.field("part", pa.int32(), metadata={COMMENT: b"made by kseg: bucket(16, id)"})
    landed = SinkSchema(pa.schema([pa.field("id", rows), part]), None)
    there = pa.schema([pa.field("ID", table), part])
    if allowed:
        assert align(landed, there, ["part"], table="t").names == ("id", "part")
    else:
        with pytest.raises(IncompatibleSchema, match="cast it to bigint in the transform"):
            align(landed, there, ["part"], table="t")


@pytest.mark.parametrize(("after", "allowed"), [(pa.int64(), True), (pa.float64(), False)])
def test_a_partition_column_stays_an_integer(after, allowed):
    table = pa.schema([("id", pa.int32()), ("v", pa.string())])
    if allowed:
        assert type_changes(sink(id=after), table, ["id"], table="t", widen=True)
    else:
        with pytest.raises(IncompatibleSchema, match="partitioned by it"):
            type_changes(sink(id=after), table, ["id"], table="t", widen=True)
