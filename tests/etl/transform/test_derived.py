"""Partition columns made of others: as Spark makes them, in the tasks."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.derived import DerivedColumn, DeriveFrameStep, DeriveStep
from kseg.etl.transform.spark_hash import spark_hash

UTC_TIMES = pa.timestamp("us", "UTC")
ADDRESS = {"topic": "t", "partition": 0, "offset": 0}


def made(function: str, values: list[Any], kind: pa.DataType, buckets: int = 0) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])
    step = DeriveStep((DerivedColumn("p", function, "c", buckets),))
    out = step.apply(batch, ADDRESS)
    assert out.schema.equals(step.output_schema(batch.schema))
    return out.column("p").to_pylist()


def test_times() -> None:
    times = [datetime(2026, 11, 23, 19, 59, 59, 999_999, UTC), None, datetime(1969, 12, 31, 23, 0, tzinfo=UTC)]
    assert made("day", times, UTC_TIMES) == [date(2026, 11, 23), None, date(1969, 12, 31)]
    assert made("month", times, UTC_TIMES) == ["2026-11", None, "1969-12"]
    assert made("hour", times, UTC_TIMES) == ["2026-11-23-19", None, "1969-12-31-23"]
    assert made("day", times, pa.timestamp("ms", "Asia/Tokyo")) == [date(2026, 11, 23), None, date(1969, 12, 31)]
    dates = [date(2026, 11, 23), None, date(1, 1, 1)]
    assert made("day", dates, pa.date32()) == dates
    assert made("month", dates, pa.date32()) == ["2026-11", None, "0001-01"]


def test_no_rows_and_slices() -> None:
    for function in ("day", "month", "hour"):
        assert made(function, [], UTC_TIMES) == []
        assert made(function, [None], UTC_TIMES) == [None]
    assert made("bucket", [], pa.string(), 4) == []
    words = pa.array(["a", "bcdef", None, "", "ghijklmno"])
    assert spark_hash(words.slice(1)).tolist() == spark_hash(words).tolist()[1:]


@pytest.mark.parametrize("function", ["day", "month", "hour"])
def test_a_year_without_a_date_is_no_partition(function: str) -> None:
    for micros in (253_402_300_800_000_000, -62_135_596_800_000_001):
        with pytest.raises(ArrowStepError, match=r"column c: no .* can be made") as caught:
            made(function, [micros], UTC_TIMES)
        assert caught.value.raised is not None  # so that the record is found, and may be a dead letter


def test_rows_of_kinds_have_it_of_the_column_that_their_kind_has() -> None:
    days, moments = pa.array([None, date(2026, 1, 2), None]), pa.array([86_400_000_000, None, None], UTC_TIMES)
    batch = pa.RecordBatch.from_arrays([days, moments], names=["c (date32[day])", "c (timestamp[us, tz=UTC])"])
    step = DeriveStep((DerivedColumn("p", "day", "c"),))
    assert step.output_schema(batch.schema).field("p").type == pa.date32()
    assert step.apply(batch, ADDRESS).column("p").to_pylist() == [date(1970, 1, 2), date(2026, 1, 2), None]
    for name, refusal in (("c", "the rows have a column c of their own"), ("d", "day is made of")):
        rows = batch.schema.append(pa.field("d (int64)", pa.int64()))
        with pytest.raises(ConfigurationError, match=refusal):
            DerivedColumn(name if name == "c" else "p", "day", name).field(rows)


def test_columns_that_do_not_go_are_refused_where_they_are_named() -> None:
    rows = pa.schema([("c", pa.float64()), ("at", UTC_TIMES), ("day", pa.date32()), ("at_day", pa.string())])
    faults = [
        (DerivedColumn("p", "day", "no"), "the rows have no column no"),
        (DerivedColumn("p", "bucket", "c", 4), "bucket is made of an integer, string, binary or date, and c is double"),
        (DerivedColumn("p", "hour", "day"), r"hour is made of a timestamp, and day is date\b"),
        (DerivedColumn("at_DAY", "day", "at"), "the rows have a column at_DAY of their own"),
    ]
    for column, message in faults:
        with pytest.raises(ConfigurationError, match=message):
            column.field(rows)


VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.dates()),
]


@pytest.mark.parametrize(("kind", "one"), VALUES, ids=str)
def test_buckets_are_those_of_sparks_hash(spark: Any, scale: Any, kind: pa.DataType, one: Any) -> None:
    found: list[Any] = []

    @given(st.lists(one, max_size=50))
    def collect(values: list[Any]) -> None:
        found.extend(values)

    collect()
    table = pa.table({"c": pa.array(found, kind)})
    rows = spark.createDataFrame(table).selectExpr("pmod(hash(c), 16) AS bucket").collect()
    assert made("bucket", found, kind, 16) == [row.bucket for row in rows]


def test_buckets_of_text_with_64_bit_offsets_are_those_of_sparks_hash(spark: Any) -> None:
    """Text that Spark sends so, where this is set, was hashed as a number if it was one."""
    rows = spark.createDataFrame([("12",), ("ab",), (None,)], "c string")
    step = DeriveFrameStep((DerivedColumn("p", "bucket", "c", 16),))
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        found = step.apply(rows).selectExpr("p", "pmod(hash(c), 16) AS bucket", "c").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert [row.p for row in found if row.c is not None] == [row.bucket for row in found if row.c is not None]


def test_text_of_times_is_that_of_sparks_date_format(spark: Any) -> None:
    times = [datetime(year, 1 + year % 12, 7, year % 24, tzinfo=UTC) for year in range(1900, 2200, 7)]
    table = pa.table({"c": pa.array(times, UTC_TIMES)})
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        rows = spark.createDataFrame(table).selectExpr(
            "date_format(c, 'yyyy-MM') AS m", "date_format(c, 'yyyy-MM-dd-HH') AS h"
        )
        expected = [(row.m, row.h) for row in rows.collect()]
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert list(zip(made("month", times, UTC_TIMES), made("hour", times, UTC_TIMES), strict=True)) == expected
