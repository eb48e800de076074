"""A query's rows in Arrow: the schema of its columns, and batches as Spark hands them to a Python function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.tables.parquet.schema import SPARK_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AS_STRUCTS: Final = frozenset({"VariantType", "GeometryType", "GeographyType"})
"""Types whose values Spark converts to structs of bytes, from which no other writer makes such values again."""


_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def arrow_schema_of(frame: DataFrame) -> pa.Schema:
    """Names and types of the columns; one with a type that has no counterpart in Arrow has Spark's name of it in its
    metadata (`SPARK_TYPE`).

    Raises:
        ConfigurationError: with a fault for every column whose type Spark does not convert, such as an interval.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    fields: list[pa.Field] = []
    faults: list[Diagnostic] = []
    for column in frame.schema:
        of_spark = column.dataType.simpleString()
        try:
            kind = to_arrow_type(column.dataType, timezone="UTC")
        except PySparkException:
            message = f"column {column.name}: Spark does not convert its type {of_spark} to Arrow"
            faults.append(Diagnostic("transform", message, "cast it to a type that Delta has, or drop it"))
            continue
        made_up = any(type(one).__name__ in _AS_STRUCTS for one in _types(column.dataType))
        metadata = {SPARK_TYPE: of_spark.encode()} if made_up else None
        fields.append(pa.field(column.name, kind, column.nullable, metadata))
    if faults:
        raise ConfigurationError(faults)
    return pa.schema(fields)


def with_small_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with text and bytes behind 32-bit offsets, as the code here expects them. Columns within others stay
    as they are.

    Where `spark.sql.execution.arrow.useLargeVarTypes` is set, Spark sends 64-bit offsets. Raises ArrowInvalid for a
    column of more than 2 GiB.
    """
    if _SMALL.keys().isdisjoint(batch.schema.types):
        return batch
    fields = [field.with_type(_SMALL.get(field.type, field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields))


def _types(kind: Any) -> Iterator[Any]:
    """A type of Spark's, and those within it."""
    yield kind
    inner = [kind.elementType] if hasattr(kind, "elementType") else []
    inner += [kind.keyType, kind.valueType] if hasattr(kind, "keyType") else []
    inner += [field.dataType for field in kind] if hasattr(kind, "fields") else []
    for one in inner:
        yield from _types(one)
