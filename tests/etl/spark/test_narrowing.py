"""A query gives the same rows, in the same types, when only what it uses crosses to the JVM one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from kseg.etl.spark.column_use import column_use
from kseg.etl.spark.narrowing import CELLS, narrowed
from record_source import SCHEMA, Source, landed, sql

pytestmark = pytest.mark.spark


def both(spark: Any, step: Callable[[DataFrame], DataFrame]) -> tuple[Source, DataFrame, DataFrame | None]:
    source = Source(spark)
    frame = step(source.frame())
    use = column_use(frame)
    found = None if use is None else narrowed(frame, use, source)
    if found is None:
        return source, frame, None
    fewer, restoring = found

    def restore(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = to_arrow_schema(restored, timezone="UTC")
        for batch in batches:
            rows = restoring.apply(batch)
            assert rows.schema.names == kinds.names
            for column in rows.columns:
                column.validate(full=not pa.types.is_string(column.type))  # text need not be UTF-8
            yield pa.RecordBatch.from_arrays([*rows.columns], schema=kinds)

    restored = frame.schema
    return source, frame, fewer.mapInArrow(restore, restored)


# The query, and the columns that cross as they are; None: nothing is gained.
QUERIES: list[tuple[str, set[str] | None]] = [
    ("SELECT * FROM __rows__", set()),
    ("SELECT *, CAST(value AS STRING) AS v, CAST(key AS STRING) AS k FROM __rows__", set()),
    ("SELECT topic, partition, offset, CAST(value AS STRING) AS v FROM __rows__", set()),
    ("SELECT headers AS h, topic AS t, partition, offset, headers FROM __rows__", set()),
    ("SELECT headers[0].key AS first, headers, topic, offset FROM __rows__ WHERE size(headers) > 0", {"headers"}),
    ("SELECT size(headers) AS n, topic, partition, offset FROM __rows__", {"headers"}),
    ("SELECT topic, partition, offset, h.key, h.value FROM __rows__ LATERAL VIEW OUTER explode(headers) e AS h",
     {"headers"}),
    ("SELECT topic, partition, offset, headers, n FROM __rows__ LATERAL VIEW explode(array(1, 2)) e AS n", set()),
    ("SELECT * EXCEPT (headers) FROM __rows__ WHERE headers IS NOT NULL", {"headers"}),
    ("SELECT * FROM __rows__ r WHERE r.offset % 3 = 1 ORDER BY r.timestamp LIMIT 3", {"offset", "timestamp"}),
    ("SELECT t.headers, t.topic, o.n FROM (SELECT 1 AS n UNION ALL SELECT 20) o LEFT JOIN __rows__ t ON t.offset = o.n",
     {"offset"}),
    ("WITH late AS (SELECT *, offset + 1 AS next FROM __rows__) SELECT headers, next, topic FROM late", {"offset"}),
    ("SELECT topic, partition, max(offset) AS offset, count(*) AS n FROM __rows__ GROUP BY ALL",
     {"topic", "partition", "offset"}),
    ("SELECT count(*) AS n FROM __rows__", {"partition"}),
    ("SELECT *, row_number() OVER (PARTITION BY topic ORDER BY offset) AS n FROM __rows__", None),
    ("SELECT DISTINCT topic, partition FROM __rows__", {"topic", "partition"}),
    ("SELECT named_struct('a', headers) AS s, upper(topic) AS t, offset FROM __rows__", {"headers", "topic"}),
    ("SELECT 1 AS one FROM __rows__", {"partition"}),
    ("SELECT offset, topic, headers, (SELECT max(n) FROM VALUES (1, 2), (3, 4) AS v(m, n) WHERE m <= offset) AS x "
     "FROM __rows__", {"offset"}),
    ("FROM __rows__ |> WHERE partition = 1 |> EXTEND offset * 2 AS twice |> DROP key", {"partition", "offset"}),
    ("SELECT a.headers, b.topic FROM __rows__ a JOIN __rows__ b ON a.offset = b.offset", None),
    ("SELECT *, (SELECT max(offset) FROM __rows__) AS last FROM __rows__", None),
    ("SELECT * FROM __rows__ WHERE hash(struct(*)) IS NOT NULL", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "plain"), QUERIES, ids=[query for query, _ in QUERIES])
def test_a_query_gives_the_same_rows(spark: Any, query: str, plain: set[str] | None) -> None:
    source, frame, fewer = both(spark, sql(query))
    if fewer is None:
        assert plain is None
        return
    assert landed(fewer) == landed(frame)
    (crossing,) = source.crossed
    assert {SCHEMA.field(column).name for column in crossing.plain} == plain


def test_columns_that_nothing_needs_do_not_cross(spark: Any) -> None:
    source, _, _ = both(spark, sql("SELECT topic, partition, offset, upper(topic) AS t FROM __rows__"))
    (crossing,) = source.crossed
    assert crossing.schema(SCHEMA).names == ["topic", CELLS]
    assert [SCHEMA.field(column).name for column in crossing.packed] == ["partition", "offset"]


def test_a_function_on_the_frame_runs_once_and_sees_all_columns(spark: Any) -> None:
    """What it computes from the rows while it makes its query must not come from rows that lack columns."""
    calls = []

    def step(rows: DataFrame) -> DataFrame:
        calls.append(rows.schema["headers"].dataType.simpleString())
        with_headers = rows.where("headers IS NOT NULL").count()
        other = rows.sparkSession.createDataFrame(
            [(number, f"n{number}") for number in range(9)], "offset int, n string"
        )
        joined = rows.join(f.broadcast(other), "offset", "left").where(f.col("offset") < 10)
        return joined.withColumn("counted", f.lit(with_headers)).withColumnRenamed("headers", "h").drop("key")

    source, frame, fewer = both(spark, step)
    assert calls == ["array<struct<key:string,value:binary>>"]
    assert fewer is not None
    assert landed(fewer) == landed(frame)
    assert len(landed(fewer)) == 10
    assert {row["counted"] for row in landed(fewer)} == {9}
    assert {SCHEMA.field(column).name for column in source.crossed[0].plain} == {"offset"}


def test_rows_that_a_step_has_cached_are_taken_from_there(spark: Any) -> None:
    """Other random numbers would come from records that are read again."""

    def step(rows: DataFrame) -> DataFrame:
        drawn = rows.withColumn("drawn", f.rand()).cache()
        return drawn.withColumn("most", f.lit(drawn.agg(f.max("drawn")).first()[0]))  # type: ignore[index]

    try:
        source, frame, fewer = both(spark, step)
        assert fewer is None
        assert not source.crossed
        rows = frame.collect()
        assert max(row["drawn"] for row in rows) == rows[0]["most"]
    finally:
        spark.catalog.clearCache()


def test_columns_cross_a_shuffle(spark: Any) -> None:
    source, frame, fewer = both(spark, lambda rows: rows.repartition(3, "offset").withColumn("x", f.col("value")))
    assert fewer is not None
    assert landed(fewer) == landed(frame)
    assert {SCHEMA.field(column).name for column in source.crossed[0].plain} == {"offset"}


def test_steps_after_one_another_are_one_query(spark: Any) -> None:
    first, second = sql("SELECT *, upper(topic) AS up FROM __rows__"), sql("SELECT up, headers, offset FROM __rows__")
    source, frame, fewer = both(spark, lambda rows: second(first(rows)))
    assert fewer is not None
    assert landed(fewer) == landed(frame)
    assert {SCHEMA.field(column).name for column in source.crossed[0].plain} == {"topic"}


def test_a_frame_that_does_not_read_the_records_is_left_as_it_is(spark: Any) -> None:
    source = Source(spark)
    assert column_use(spark.range(3)) is None
    assert not source.crossed


def test_bytes_with_64_bit_offsets_come_back_as_they_went(spark: Any) -> None:
    """Spark sends them so where this is set; cells that were read with 32-bit offsets gave other rows."""
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        _, frame, fewer = both(spark, sql("SELECT *, upper(topic) AS up FROM __rows__"))
        assert fewer is not None
        assert landed(fewer) == landed(frame)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
