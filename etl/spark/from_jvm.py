"""Batches that Spark hands to a Python function (`mapInArrow`), as the code here expects them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def with_small_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with text and bytes behind 32-bit offsets: where `spark.sql.execution.arrow.useLargeVarTypes` is set,
    Spark sends 64-bit ones. Columns within others stay as they are.

    Raises ArrowInvalid for a column of more than 2 GiB.
    """
    if _SMALL.keys().isdisjoint(batch.schema.types):
        return batch
    fields = [field.with_type(_SMALL.get(field.type, field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields))
