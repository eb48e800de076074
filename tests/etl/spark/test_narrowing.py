"""A query gives the same rows, in the same types, when only what it uses crosses to the JVM one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.spark.narrowing import CELLS, Crossing, narrowed
from kseg.etl.transform.sql import SqlStep

pytestmark = pytest.mark.spark

SCHEMA = DecodeOptions(addresses=True).schema
HEADERS = [
    [{"key": "trace", "value": b"1"}, {"key": "trace", "value": b"1"}, {"key": "none", "value": None}],
    None,
    [],
    [{"key": "b", "value": b"\x00\xff"}],
]


def records() -> pa.RecordBatch:
    rows = [
        {
            "key": None if number % 3 == 0 else f"k{number}".encode(),
            "value": None if number == 5 else f'{{"n": {number}}}'.encode(),
            "topic": "orders",
            "partition": number % 2,
            "offset": number,
            "timestamp": None if number == 7 else datetime(2026, 1, 1, 0, 0, number, number, tzinfo=UTC),
            "timestampType": 0,
            "headers": HEADERS[number % 4],
            "_kseg_topic": "orders",
            "_kseg_partition": number % 2,
            "_kseg_offset": number,
        }
        for number in range(12)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@dataclass
class Source:
    """The records above, in the way in which tasks give them. crossed: what was asked for."""

    spark: Any
    schema: pa.Schema = SCHEMA
    crossed: list[Crossing] = field(default_factory=list)

    def frame(self, crossing: Crossing | None = None) -> DataFrame:
        batches = [records().slice(0, 5), records().slice(5)]
        if crossing is not None:
            self.crossed.append(crossing)
            batches = [crossing.apply(batch) for batch in batches]
        data = pa.Table.from_batches(batches)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, data.schema) as writer:
            writer.write_table(data)
        content = stream.getvalue().to_pybytes()

        def kseg_read_ranges(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from pa.ipc.open_stream(content)

        frame: DataFrame = self.spark.range(0, 1, 1, 1).mapInArrow(kseg_read_ranges, from_arrow_schema(data.schema))
        return frame


def landed(frame: DataFrame) -> list[dict[str, Any]]:
    """What a last step in a worker gets."""
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def both(spark: Any, step: Callable[[DataFrame], DataFrame]) -> tuple[Source, DataFrame, DataFrame | None]:
    source = Source(spark)
    frame = step(source.frame())
    found = narrowed(frame, source)
    if found is None:
        return source, frame, None
    fewer, restoring = found

    def restore(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = to_arrow_schema(restored, timezone="UTC")
        for batch in batches:
            rows = restoring.apply(batch)
            assert rows.schema.names == kinds.names
            for column in rows.columns:
                column.validate(full=True)
            yield pa.RecordBatch.from_arrays([*rows.columns], schema=kinds)

    restored = frame.schema
    return source, frame, fewer.mapInArrow(restore, restored)


def sql(query: str) -> Callable[[DataFrame], DataFrame]:
    return SqlStep(query, "transform[0].sql").apply


# The query, and the columns that cross as they are; None: nothing is gained.
QUERIES: list[tuple[str, set[str] | None]] = [
    ("SELECT * FROM __rows__", set()),
    ("SELECT *, CAST(value AS STRING) AS v, CAST(key AS STRING) AS k FROM __rows__", {"key", "value"}),
    ("SELECT topic, partition, offset, CAST(value AS STRING) AS v FROM __rows__", {"value"}),
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
    assert narrowed(spark.range(3), source) is None
    assert not source.crossed
