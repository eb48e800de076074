"""A DataFrame as it is landed: the sink's columns with the table's types, and `_kseg_run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import RUN_COLUMN
from kseg.etl.rows.types import same_type
from kseg.etl.tables.parquet.align import fits, side_by_side
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.removal import quoted
from kseg.segment_reader.payload.ddl import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def project(rows: DataFrame, sink: SinkSchema, run_id: str) -> DataFrame:
    """The DataFrame as it is landed: the sink's columns and `_kseg_run`. A changed address fails the row's task."""
    from pyspark.sql import functions as f

    columns = [f.col(quoted(field.name)) for field in sink.columns if field.name != RUN_COLUMN]
    if sink.address is not None and sink.check_address is not None:
        own, copy = ([f.col(quoted(name)) for name in names] for names in (sink.address, sink.check_address))
        same = own[0].eqNullSafe(copy[0]) & own[1].eqNullSafe(copy[1]) & own[2].eqNullSafe(copy[2])
        changed = f.raise_error("a transform changed topic, partition or offset, which are the row's address")
        at = sink.columns.names.index(sink.address.offset)
        columns[at] = f.when(same, own[2]).otherwise(changed).alias(sink.address.offset)
    return rows.select(*columns, f.lit(run_id).alias(RUN_COLUMN))


def as_in_table(rows: DataFrame, sink: SinkSchema, table: pa.Schema) -> DataFrame:
    """Rows whose types are narrower than the table's with those of the table: Delta's writer does not convert them."""
    from pyspark.sql import functions as f

    casts = {
        column.name: f.col(quoted(column.name)).cast(type_text(found.written))
        for column, _, found in fits(sink, table)
        if found is not None and not found.widened and not same_type(found.written, column.type)
    }
    return rows.withColumns(casts) if casts else rows


@contextmanager
def both_schemas(sink: SinkSchema, table: pa.Schema) -> Iterator[None]:
    """Around a write: where Spark finds that the rows do not fit, its error shows all columns of both."""
    try:
        yield
    except ConfigurationError as error:
        (fault, *more) = error.faults
        if more or fault.path != "sink":
            raise
        remedy = f"{fault.remedy}\nAll columns:\n{side_by_side(sink.columns, table)}"
        raise ConfigurationError.of(fault.path, fault.message, remedy) from error.__cause__
