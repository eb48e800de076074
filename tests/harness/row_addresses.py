"""Rows with a copy of their address, as a transform may leave them: the schema, and a batch."""

from __future__ import annotations

import pyarrow as pa

from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS
from kseg.etl.rows.types import ADDRESS_TYPES


def with_address(rows: pa.Schema) -> pa.Schema:
    """The decoded columns and a copy of their address."""
    for name, kind in zip(KSEG_ADDRESS, ADDRESS_TYPES, strict=True):
        rows = rows.append(pa.field(name, kind))
    return rows


def add_address(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A decoded batch with a copy of its address columns."""
    columns = [*batch.columns, *(batch.column(name) for name in OWN_ADDRESS)]
    return pa.RecordBatch.from_arrays(columns, schema=with_address(batch.schema))
