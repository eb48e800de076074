"""Deletion vectors of a snapshot: whether there are any, and how many rows they hide.

delta-rs hands them out as Arrow, one list of bits a file (true: the row is there). They are counted there: as Python
values the vectors of a large table would take some hundred times their size.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable

FEATURE = "deletionVectors"


def in_use(table: DeltaTable) -> bool:
    """Whether a file of the snapshot has a deletion vector."""
    return any(batch.num_rows for batch in _vectors(table))


def deleted_rows(table: DeltaTable) -> int:
    """How many rows of the snapshot's files are deleted by vectors."""
    deleted = 0
    for batch in _vectors(table):
        kept = batch.column("selection_vector").flatten()
        deleted += len(kept) - kept.true_count
    return deleted


def _vectors(table: DeltaTable) -> Iterator[pa.RecordBatch]:
    protocol = table.protocol()
    if FEATURE in (protocol.reader_features or ()):
        for batch in table.deletion_vectors():
            yield pa.record_batch(batch)
