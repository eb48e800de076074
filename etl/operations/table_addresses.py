"""The addresses of a job's rows as one of its tables has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.tables.protocol import TableAccess


def address_columns(table: str, access: TableAccess) -> AddressColumns:
    """The columns that hold the topic, the partition and the offset of a table's rows.

    Raises:
        ConfigurationError: it has no such columns, or none for the run that landed a row.
    """
    there = set(access.column_names())
    for address in (KSEG_ADDRESS, OWN_ADDRESS):
        if {*address, RUN_COLUMN} <= there:
            return address
    raise ConfigurationError.of(
        "sink", f"{table} has no address columns", "a ledger is rebuilt from the topic, partition and offset of rows"
    )


def offsets_of_column(offsets: pa.ChunkedArray) -> OffsetSet:
    """The offsets in a column, which has at least one row."""
    numbers = np.unique(offsets.to_numpy())
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    starts = numbers[np.concatenate(([0], breaks + 1))]
    ends = numbers[np.concatenate((breaks, [len(numbers) - 1]))] + 1
    return OffsetSet.of(zip(starts.tolist(), ends.tolist(), strict=True))
