"""Deletion vectors of a snapshot: whether there are any, and how many rows they hide.

delta-rs hands them out as Arrow, one list of bits a file (true: the row is there). They are counted there: as Python
values the vectors of a large table would take some hundred times their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from kseg.etl.tables.delta.readable import is_readable

if TYPE_CHECKING:
    import pyarrow as pa

FEATURE = "deletionVectors"


def in_use(table: DeltaTable) -> bool:
    """Whether a file of the snapshot has a deletion vector, or may have one that cannot be read."""
    return _unknown(table) or any(batch.num_rows for batch in _vectors(table))


def deleted_rows(table: DeltaTable) -> int | None:
    """How many rows of the snapshot's files are deleted by vectors; None where that cannot be read."""
    if _unknown(table):
        return None
    deleted = 0
    for batch in _vectors(table):
        kept = batch.column("selection_vector").flatten()
        deleted += len(kept) - kept.true_count
    return deleted


def _unknown(table: DeltaTable) -> bool:
    """delta-rs reads no vectors of a table with features that it does not know."""
    return _enabled(table) and not is_readable(table)


def _enabled(table: DeltaTable) -> bool:
    return FEATURE in (table.protocol().reader_features or ())


def _vectors(table: DeltaTable) -> Iterator[pa.RecordBatch]:
    if _enabled(table):
        import pyarrow as pa

        for batch in table.deletion_vectors():
            yield pa.record_batch(batch)
