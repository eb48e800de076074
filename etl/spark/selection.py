"""A query that only takes columns of the records, renames them, or reads their bytes as text.

Such a query runs where the records are decoded, and no row crosses to the JVM: `SELECT *, CAST(value AS STRING) AS
text`, the first thing that is written over Kafka's records, costs what landing them costs. Spark has analysed it, so
names and types are Spark's; nothing is parsed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.spark.column_use import ColumnUse, Passed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Selection:
    """The query's rows from those of the records: of each column its name, and which one it is. Picklable."""

    columns: tuple[tuple[str, Passed], ...]

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [taken(rows.columns, column) for _, column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


def selected(frame: DataFrame, use: ColumnUse, rows: pa.Schema) -> Selection | None:
    """The columns that the query takes; None if it does more than that.

    use: the query's. rows: the records' schema.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if not use.selects_only:
        return None
    result = to_arrow_schema(frame.schema, timezone="UTC")
    columns = tuple((name, use.passed[place]) for place, name in enumerate(result.names))
    for place, (_, column) in enumerate(columns):
        if not can_take(rows.field(column.column).type, column, result.field(place).type):
            return None
    return Selection(columns)


def can_take(kind: pa.DataType, column: Passed, result: pa.DataType) -> bool:
    """Whether the values of a column of this type are those of the result's column, byte for byte."""
    if column.as_text:
        return bool(pa.types.is_binary(kind) and pa.types.is_string(result))
    return _same_layout(kind, result)


def taken(columns: Sequence[pa.Array], column: Passed) -> pa.Array:
    """A column of the result. The bytes of text are not looked at, as in Spark: they may be no UTF-8."""
    found = columns[column.column]
    if not column.as_text:
        return found
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers(), found.null_count, found.offset)


def _same_layout(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of the types have the same bytes: they may differ in names of nested fields."""
    if pa.types.is_nested(one) and pa.types.is_nested(other):
        same = one.id == other.id and one.num_fields == other.num_fields
        return same and all(
            _same_layout(one.field(number).type, other.field(number).type) for number in range(one.num_fields)
        )
    return bool(one == other)
