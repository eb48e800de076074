"""Creating a table and adding columns to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from kseg.etl.tables.errors import IncompatibleSchema

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
