"""Creating a table and adding columns to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, TableFeatures
from deltalake.schema import ArrayType, Field, MapType, PrimitiveType, StructType

from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.schema import sink_schema

LONG = PrimitiveType("long")
NTZ = pa.timestamp("us")
IN_MAPS = [
    pa.map_(pa.string(), NTZ),
    pa.map_(NTZ, pa.string()),
    pa.map_(pa.string(), pa.struct([("at", NTZ)])),
    pa.list_(pa.struct([("seen", pa.map_(pa.string(), NTZ))])),
]


def with_column(rows: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    return rows.append_column("seen", pa.nulls(rows.num_rows, kind))


@pytest.mark.parametrize("kind", IN_MAPS, ids=str)
def test_a_time_without_zone_in_a_map_alone_is_refused_for_a_new_table(lander, rows, kind):
    table = lander()
    with pytest.raises(IncompatibleSchema, match=r"sink.seen.*timestampNtz"):
        table.write([with_column(rows(0, 3), kind)])
    assert not Path(table.path).exists() or DeltaTable.is_deltatable(table.path) is False


@pytest.mark.parametrize("kind", IN_MAPS, ids=str)
def test_a_column_that_nobody_could_read_is_not_added(lander, rows, kind):
    table = lander()
    table.land(rows(0, 3))
    with pytest.raises(IncompatibleSchema, match=r"sink.seen.*timestampNtz"):
        table.write([with_column(rows(3, 6), kind)], merge_schema=True)
    assert len(table.offsets()) == 3


@pytest.mark.parametrize("kind", IN_MAPS, ids=str)
def test_a_time_without_zone_in_a_map_lands_in_a_table_with_the_feature(lander, rows, kind):
    table = lander()
    table.land(rows(0, 3))
    DeltaTable(table.path).alter.add_feature(
        TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
    )
    table.land(with_column(rows(3, 6), kind), run_id="run-2", number=2, merge_schema=True)
    assert len(table.offsets()) == 6


def test_a_time_without_zone_beside_the_map_brings_the_feature(lander, rows):
    table = lander()
    batch = with_column(rows(0, 3), IN_MAPS[0])
    table.land(batch.append_column("at", pa.nulls(3, NTZ)))
    assert table.target.load().protocol().reader_features == ["timestampNtz"]
    assert len(table.offsets()) == 3


def test_a_struct_that_grows_stays_as_nullable_as_it_was(lander, rows):
    one, two = StructType([Field("a", LONG)]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    table = lander()
    columns = Schema.from_arrow(sink_schema(rows().schema).columns).fields
    nested = [
        Field("s", one, nullable=False),
        Field("l", ArrayType(one, contains_null=False)),
        Field("m", MapType(PrimitiveType("string"), one, value_contains_null=False)),
        Field("n", ArrayType(one)),
    ]
    DeltaTable.create(table.path, Schema([*columns, *nested]))
    kinds = {"s": two, "l": pa.list_(two), "m": pa.map_(pa.string(), two), "n": pa.list_(two)}
    batch = rows(0, 2)
    for name, kind in kinds.items():
        batch = batch.append_column(name, pa.array([{"a": 1, "b": "x"}] * 2 if name == "s" else [[]] * 2, kind))
    table.land(batch, merge_schema=True)
    grown = table.target.load().schema()
    assert [field.nullable for field in grown.fields[-4:]] == [False, True, True, True]
    of = {field.name: field.type for field in grown.fields}
    assert (of["l"].contains_null, of["m"].value_contains_null, of["n"].contains_null) == (False, False, True)
    assert [field.name for field in of["l"].element_type.fields] == ["a", "b"]
    assert len(table.offsets()) == 2
