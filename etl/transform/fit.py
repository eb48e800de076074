"""Last step of `verify`: casts rows to the table's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.transform.step import Address, BatchStep

if TYPE_CHECKING:
    from kseg.etl.decoding.bad_records import BadRecords


@dataclass(frozen=True)
class FitStep(BatchStep):
    """columns: the table's. without: those that are null in these rows. partition_by: among them, where an empty string
    is null (Delta protocol, "Partition Value Serialization"). sources: what the rows call a column, where that is not
    its name."""

    columns: pa.Schema
    without: frozenset[str] = frozenset()
    partition_by: frozenset[str] = frozenset()
    sources: Mapping[str, str] = field(default_factory=dict)
    place: str = "decode"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.columns

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        spelled = {name.lower(): name for name in batch.schema.names}
        # Of topics with sections of their own, one may lack a column that the table has of another.
        spelled |= {name.lower(): column for name, column in self.sources.items() if column in spelled.values()}
        without = {name.lower() for name in self.without}
        arrays = []
        for column in self.columns:
            name = spelled.get(column.name.lower())
            known = name is not None and column.name.lower() not in without
            arrays.append(_as(batch.column(name), column.type) if known else pa.nulls(batch.num_rows, column.type))
            if column.name in self.partition_by and pa.types.is_string(column.type):
                empty = pc.equal(arrays[-1], "")
                arrays[-1] = pc.if_else(empty, pa.scalar(None, column.type), arrays[-1])
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


@dataclass(frozen=True)
class BlankStep(BatchStep):
    """The same rows, with nulls in these columns: what was not landed of them. Picklable."""

    without: frozenset[str]
    place: str = "sink.routes"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        arrays = [
            pa.nulls(batch.num_rows, field.type) if field.name in self.without else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as they are landed in a column of this type; nulls where none of them can be, as in no table's row."""
    try:
        return column if column.type == kind else pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), kind)
