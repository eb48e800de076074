"""Rows that tasks read through pyarrow are those that Spark's own reader gives."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.removal import OfAddresses
from kseg.etl.tables.spark.read import frame_of_files

pytestmark = pytest.mark.spark

DAYS = [date(2026, 1, 1), date(2026, 1, 2), None]


def rows(first: int, **more: list) -> pa.Table:
    """Twelve rows, of all kinds of columns."""
    count = 12
    numbers = list(range(first, first + count))
    headers = [[{"key": "k", "value": b"\x00"}] if n % 3 else (None if n % 2 else []) for n in numbers]
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    columns = {
        "topic": pa.array(["orders"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(numbers, pa.int64()),
        "value": pa.array([None if n % 5 == 0 else b"%d" % n for n in numbers], pa.binary()),
        "timestamp": pa.array(
            [datetime(2026, 1, 1, 0, 0, n % 60, tzinfo=UTC) for n in numbers], pa.timestamp("us", "UTC")
        ),
        "headers": pa.array(headers, pa.list_(header)),
        "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(12, 2)),
        "tags": pa.array([[("a", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
        "day": pa.array([DAYS[n % 3] for n in numbers], pa.date32()),
        "shop": pa.array([["a b", "ü/%", None][n % 3] for n in numbers]),
    }
    return pa.table(columns | {name: pa.array(values) for name, values in more.items()})


@pytest.fixture
def path(tmp_path) -> str:
    """A table with two partition columns, one of whose columns came with its second version."""
    path = str(tmp_path / "table")
    write_deltalake(path, rows(0), partition_by=["day", "shop"])
    write_deltalake(path, rows(12, late=[n % 2 == 0 for n in range(12)]), mode="append", schema_mode="merge")
    return path


def ordered(frame):
    return [row.asDict(recursive=True) for row in frame.orderBy("offset").collect()]


def test_rows_and_types_are_those_of_sparks_own_reader(spark, path):
    own = spark.read.format("delta").load(path)
    frame = frame_of_files(spark, DeltaAccess(path))
    assert frame.schema == own.schema
    assert ordered(frame) == ordered(own)
    assert len(ordered(frame)) == 24


@pytest.mark.parametrize("columns", [["offset"], ["offset", "shop"], ["late", "offset"]])
def test_columns_are_read_alone(columns, spark, path):
    frame = frame_of_files(spark, DeltaAccess(path), columns)
    assert set(frame.columns) == set(columns)
    assert ordered(frame.select(*columns)) == ordered(spark.read.format("delta").load(path).select(*columns))


def test_partition_columns_are_counted_without_a_column_of_the_files(spark, path):
    frame = frame_of_files(spark, DeltaAccess(path), ["shop"])
    assert sorted((row["shop"] or "", row["count"]) for row in frame.groupBy("shop").count().collect()) == [
        ("", 8),
        ("a b", 8),
        ("ü/%", 8),
    ]


def test_files_outside_of_the_addresses_are_not_read(spark, path, tmp_path):
    wanted = OfAddresses(OWN_ADDRESS, {TopicPartition("orders", 0): OffsetSet.single(12, 24)})
    for file in DeltaTable(path, version=0).file_uris():
        (tmp_path / "table" / file.removeprefix(f"{path}/")).unlink(missing_ok=True)
    frame = frame_of_files(spark, DeltaAccess(path), ["offset"], wanted)
    assert [row["offset"] for row in ordered(frame)] == list(range(12, 24))


def test_an_empty_table_has_its_columns(spark, tmp_path):
    path = str(tmp_path / "empty")
    DeltaTable.create(path, rows(0).schema)
    frame = frame_of_files(spark, DeltaAccess(path))
    assert ordered(frame) == []
    assert frame.schema == spark.read.format("delta").load(path).schema


def test_what_only_spark_reads_is_left_to_it(spark, tmp_path):
    assert frame_of_files(spark, DeltaAccess(str(tmp_path / "nowhere"))) is None
    deleted, mapped = str(tmp_path / "deleted"), str(tmp_path / "mapped")
    spark.sql(
        f"CREATE TABLE delta.`{deleted}` (offset LONG) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.range(100).toDF("offset").coalesce(1).write.format("delta").mode("append").save(deleted)
    assert frame_of_files(spark, DeltaAccess(deleted)) is not None
    spark.sql(f"DELETE FROM delta.`{deleted}` WHERE offset = 5")
    assert frame_of_files(spark, DeltaAccess(deleted)) is None
    spark.sql(
        f"CREATE TABLE delta.`{mapped}` (offset LONG) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    assert frame_of_files(spark, DeltaAccess(mapped)) is None
