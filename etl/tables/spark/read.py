"""A Delta table as a DataFrame whose files the tasks read through pyarrow: for stores that Spark itself cannot reach.

snapshot, by delta-rs ──► files that statistics do not rule out ──► range(n).mapInArrow(FileRows)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kseg.etl.rows.types import UnlandableType, delta_type
from kseg.etl.tables.delta import deletion_vectors
from kseg.etl.tables.delta.features import spark_reasons
from kseg.etl.tables.delta.snapshot_files import snapshot_files
from kseg.etl.tables.delta.table import DeltaAccess, table_schema
from kseg.etl.tables.parquet.read import FileRows, TableFile
from kseg.etl.tables.removal import Removal, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_TASKS: Final = 2_000


def frame_of_files(
    spark: SparkSession, access: DeltaAccess, columns: Sequence[str] | None = None, within: Removal | None = None
) -> DataFrame | None:
    """The rows of the newest snapshot; None where only Spark's own reader gives them, or there is no table.

    columns: these alone. within: rows that are not meant by it may be left out, where statistics tell.
    """
    table = access.load()
    if table is None or spark_reasons(table) or deletion_vectors.in_use(table):
        return None
    files = [
        TableFile(file.path, file.values)
        for file in snapshot_files(table, within.columns if within is not None else ())
        if within is None or within.verdict(file.bounds) is not Verdict.NONE
    ]
    if any("://" in file.path or file.path.startswith("/") for file in files):
        return None  # outside of the table's folder (a shallow clone)
    fields = [field for field in table_schema(table) if columns is None or field.name in columns]
    try:
        schema = pa.schema([field.with_type(delta_type(field.type)) for field in fields])
    except UnlandableType:
        return None
    of_spark = _spark_schema(table.schema().to_json(), schema.names)
    numbers = spark.range(0, len(files), 1, max(min(len(files), MOST_TASKS), 1))
    return numbers.mapInArrow(FileRows(access.location, tuple(files), schema), of_spark)


def batches_of(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The frame's rows in the driver, some at a time, without a Python object a row."""
    for row in frame.mapInArrow(_as_bytes, "batch binary").toLocalIterator(prefetchPartitions=True):
        yield from pa.ipc.open_stream(row[0])


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: each batch as a stream of Arrow's IPC format."""
    for batch in batches:
        made = pa.BufferOutputStream()
        with pa.ipc.new_stream(made, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch([pa.array([made.getvalue().to_pybytes()], pa.binary())], names=["batch"])


def _spark_schema(delta: str, names: Sequence[str]) -> StructType:
    """A part of a table's schema for Spark, whose JSON Delta's log has."""
    from pyspark.sql.types import StructType

    whole = StructType.fromJson(json.loads(delta))
    return StructType([field for field in whole if field.name in names])
