"""Types of a query's columns in Arrow, and those that Arrow does not have."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.parquet.schema import sink_schema, spark_type
from kseg.etl.transform.frame_schema import arrow_schema_of

pytestmark = pytest.mark.spark


def test_types_are_those_that_tasks_get(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS n, array(named_struct('at', current_timestamp())) AS a, map('k', X'00') AS m")
    found = arrow_schema_of(frame)
    assert found.equals(to_arrow_schema(frame.schema, timezone="UTC"))
    assert [spark_type(column) for column in found] == [None] * 3


def test_a_type_that_is_a_struct_for_arrow_alone_keeps_its_name(spark: Any) -> None:
    """A variant landed as a struct of two binary columns, which nobody can read as a variant."""
    frame = spark.sql(
        "SELECT parse_json('1') AS v, map('k', array(parse_json('1'))) AS inside, 1 AS n, "
        "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040') AS place"
    )
    sink = sink_schema(arrow_schema_of(frame), addresses=False)
    assert [spark_type(column) for column in sink.columns] == [
        "variant",
        "map<string,array<variant>>",
        None,
        "geometry(0)",
        None,
    ]


def test_types_that_arrow_does_not_have_are_told_by_column(spark: Any) -> None:
    frame = spark.sql("SELECT make_ym_interval(1, 2) AS a, 1 AS n, make_interval(1, 2) AS b")
    with pytest.raises(ConfigurationError) as caught:
        arrow_schema_of(frame)
    assert [fault.message.partition(":")[0] for fault in caught.value.faults] == ["column a", "column b"]
    assert all("cast it" in (fault.remedy or "") for fault in caught.value.faults)
