"""By which columns of the rows a new table can be partitioned and clustered."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.parquet.layout import check_layout, has_bounds

ROWS = pa.schema(
    [("id", pa.int64()), ("day", pa.date32()), ("raw", pa.binary()), ("at", pa.struct([("place", pa.string())]))]
)


@pytest.mark.parametrize(
    ("asked", "path", "words"),
    [
        ({"partition_by": ["day", "nope"]}, "sink.partition_by[1]", "nope: the rows do not have this partition"),
        ({"partition_by": ["at"]}, "sink.partition_by[0]", "at: struct<place: string> is not a type to partition by"),
        ({"partition_by": ["day", "DAY"]}, "sink.partition_by[1]", "day and DAY are the same name for Delta"),
        ({"cluster_by": ["nope"]}, "sink.cluster_by[0]", "nope: the rows do not have this clustering column"),
        ({"cluster_by": ["at"]}, "sink.cluster_by[0]", "at: struct<place: string> is not a type to cluster by"),
        ({"cluster_by": ["id", "raw"]}, "sink.cluster_by[1]", "raw: binary is not a type to cluster by"),
        ({"cluster_by": ["id", "ID"]}, "sink.cluster_by[1]", "id and ID are the same name for Delta"),
    ],
)
def test_a_column_that_cannot_be_used_is_a_fault_at_its_place(
    asked: dict[str, list[str]], path: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_layout(ROWS, asked.get("partition_by", ()), asked.get("cluster_by", ()))
    [fault] = caught.value.faults
    assert fault.path == path
    assert words in fault.message
    assert fault.remedy


def test_names_are_those_of_the_rows_but_for_case() -> None:
    check_layout(ROWS, ["DAY"], ["Id"])


def test_spark_partitions_by_types_that_delta_rs_does_not() -> None:
    check_layout(pa.schema([("share", pa.float64()), ("raw", pa.binary())]), ["share", "raw"], ())


@pytest.mark.parametrize(
    ("kind", "takes"),
    [
        (pa.int8(), True),
        (pa.float32(), True),
        (pa.decimal128(10, 2), True),
        (pa.date32(), True),
        (pa.timestamp("us", "UTC"), True),
        (pa.timestamp("us"), True),
        (pa.string(), True),
        (pa.bool_(), False),
        (pa.binary(), False),
        (pa.list_(pa.int32()), False),
    ],
)
def test_clustering_takes_the_types_that_delta_skips_files_by(kind: pa.DataType, takes: bool) -> None:
    assert has_bounds(kind) is takes
