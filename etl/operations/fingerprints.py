"""Rows as an address and a 128-bit fingerprint, in Spark; and the ledger's ranges as small DataFrames to join with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.etl.operations.expected_rows import ADDRESS_ALONE
from kseg.etl.rows.names import OWN_ADDRESS, AddressColumns
from kseg.etl.run.context import JobContext

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

BROADCAST_ROWS: Final = 200_000
"""Ranges and claims up to this number are broadcast; with more of them, Spark chooses the join strategy."""


def fingerprints(
    frame: DataFrame, address: AddressColumns, columns: list[str], name: str, *keep: str, kind: Column | int = 0
) -> DataFrame:
    """Address and fingerprint of each row, and the columns to keep beside them.

    columns: a missing one counts as null. kind: the kind of each row (`expected_rows.Part`). Fingerprints of different
    kinds differ; those of `ADDRESS_ALONE` are all equal.
    """
    from pyspark.sql import functions as f

    where = [f.col(a).alias(b) for a, b in zip(address, OWN_ADDRESS, strict=True)]
    # Spark's hashes skip nulls, so ("a", null) and (null, "a") would be equal without the columns' numbers.
    types = {field.name.lower(): field.dataType for field in frame.schema}
    there = {c: f.col(f"`{c}`") if c.lower() in types else None for c in columns}
    values = [_hashable(column, types[c.lower()]) for c, column in there.items() if column is not None]
    nulls = [f.lit(True) if column is None else column.isNull() for column in there.values()]
    kind = f.lit(kind) if isinstance(kind, int) else kind
    fingerprint = f.struct(
        f.when(kind != ADDRESS_ALONE, f.xxhash64(kind, *values, *nulls)).otherwise(f.lit(0)).alias("one"),
        f.when(kind != ADDRESS_ALONE, f.xxhash64(f.lit(1), kind, *nulls, *values)).otherwise(f.lit(0)).alias("two"),
    )
    return frame.select(*where, fingerprint.alias(name), *keep)


def _hashable(value: Column, kind: DataType) -> Column:
    """A value for Spark's hash functions, which reject maps, skip nulls inside of values, and ignore array lengths."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        entries = f.array_sort(f.map_entries(value))
        return _of_items(entries, lambda x: [x["key"], x["value"].isNull(), _hashable(x["value"], kind.valueType)])
    if isinstance(kind, ArrayType):
        return _of_items(value, lambda x: [x.isNull(), _hashable(x, kind.elementType)])
    if isinstance(kind, StructType) and kind.fields:
        children = [value.getField(field.name) for field in kind.fields]
        hashed = [_hashable(child, field.dataType) for child, field in zip(children, kind.fields, strict=True)]
        return _struct([*hashed, *(child.isNull() for child in children)])
    return value


def _of_items(items: Column, parts: Any) -> Column:
    from pyspark.sql import functions as f

    return _struct([f.size(items), f.transform(items, lambda x: _struct(parts(x)))])


def _struct(parts: list[Column]) -> Column:
    from pyspark.sql import functions as f

    return f.struct(*(part.alias(f"c{number}") for number, part in enumerate(parts)))


def is_within(address: AddressColumns, prefix: str) -> Column:
    """Whether an address lies in the range of a side table's row."""
    from pyspark.sql import functions as f

    return (
        (f.col(f"{prefix}_topic") == f.col(address.topic))
        & (f.col(f"{prefix}_partition") == f.col(address.partition))
        & (f.col(address.offset) >= f.col(f"{prefix}_start"))
        & (f.col(address.offset) < f.col(f"{prefix}_end"))
    )


def side_table(context: JobContext, values: Iterable[Sequence[Any]], names: Sequence[str]) -> DataFrame:
    """Values of the ledger as a DataFrame. Columns named `…_topic` or `…_run` are strings, others are longs."""
    from pyspark.sql import functions as f

    columns = list(zip(*values, strict=True)) or [()] * len(names)
    types = [pa.string() if name.endswith(("_topic", "_run")) else pa.int64() for name in names]
    table = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(names))
    frame = context.spark.session(delta=True).createDataFrame(table)
    return f.broadcast(frame) if table.num_rows <= BROADCAST_ROWS else frame
