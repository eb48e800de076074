"""Queries that only take, rename and read columns as text are known, and their rows made without Spark are Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from kseg.etl.spark.column_use import column_use
from kseg.etl.spark.selection import Selection, selected
from record_source import SCHEMA, Source, landed, records, sql

pytestmark = pytest.mark.spark

SELECTIONS = [
    "SELECT * FROM __rows__",
    "SELECT *, CAST(value AS STRING) AS text, CAST(key AS STRING) AS name FROM __rows__",
    "SELECT CAST(value AS STRING) AS value, offset AS at, headers, timestamp, topic AS t FROM __rows__",
    "SELECT text, text AS again, value FROM (SELECT STRING(value) AS text, * EXCEPT (topic) FROM __rows__) AS inside",
    "WITH texts AS (SELECT try_cast(key AS STRING) AS name, offset FROM __rows__) SELECT offset, name FROM texts",
    "FROM __rows__ |> EXTEND CAST(value AS STRING) AS payload |> DROP value, key",
]
QUERIES = [
    "SELECT * FROM __rows__ WHERE offset > 3",
    "SELECT *, 1 AS one FROM __rows__",
    "SELECT upper(CAST(value AS STRING)) AS text FROM __rows__",
    "SELECT CAST(CAST(value AS STRING) AS BINARY) AS value FROM __rows__",
    "SELECT CAST(offset AS STRING) AS text FROM __rows__",
    "SELECT CAST(value AS STRING) COLLATE UTF8_LCASE AS text FROM __rows__",
    "SELECT offset, CAST(headers AS ARRAY<STRUCT<k: STRING, v: BINARY>>) AS headers FROM __rows__",
    "SELECT * FROM __rows__ LIMIT 2",
    "SELECT DISTINCT topic FROM __rows__",
    "SELECT topic, h.key FROM __rows__ LATERAL VIEW explode(headers) e AS h",
    "SELECT offset, (SELECT max(n) FROM VALUES (1), (2) AS v(n)) AS most FROM __rows__",
    "SELECT offset FROM __rows__ UNION ALL SELECT 1",
    "SELECT a.offset FROM __rows__ a CROSS JOIN VALUES (1), (2) AS v(n)",
]


def selection_of(frame: Any) -> Selection | None:
    use = column_use(frame)
    return None if use is None else selected(frame, use, SCHEMA)


def values(column: pa.ChunkedArray) -> list[Any]:
    """Text as bytes: it need not be UTF-8."""
    found: list[Any] = (column.cast(pa.binary()) if pa.types.is_string(column.type) else column).to_pylist()
    return found


@pytest.mark.parametrize("query", SELECTIONS)
def test_rows_are_those_that_spark_makes(spark: Any, query: str) -> None:
    frame = sql(query)(Source(spark).frame())
    selection = selection_of(frame)
    assert selection is not None
    rows = pa.Table.from_batches([selection.apply(batch) for batch in (records().slice(0, 5), records().slice(5))])
    theirs = frame.toArrow()
    assert rows.schema.names == theirs.schema.names
    for mine, of_spark in zip(rows.columns, theirs.columns, strict=True):
        assert pa.types.is_nested(mine.type) or mine.type == of_spark.type
        # By bytes: text need not be UTF-8.
        as_bytes = [
            column.cast(pa.binary()) if pa.types.is_string(mine.type) else column for column in (mine, of_spark)
        ]
        assert as_bytes[0].to_pylist() == as_bytes[1].to_pylist()


@pytest.mark.parametrize("query", QUERIES)
def test_what_does_more_is_left_to_spark(spark: Any, query: str) -> None:
    assert selection_of(sql(query)(Source(spark).frame())) is None


def test_columns_of_a_dataframe_are_taken_too(spark: Any) -> None:
    frame = Source(spark).frame().withColumn("text", f.col("value").cast("string")).drop("value", "headers")
    selection = selection_of(frame)
    assert selection is not None
    assert [name for name, _ in selection.columns] == frame.columns


def test_rows_of_a_cache_are_sparks(spark: Any) -> None:
    cached = Source(spark).frame().cache()
    try:
        assert landed(cached)
        assert selection_of(cached.select("topic")) is None
    finally:
        cached.unpersist(blocking=True)
