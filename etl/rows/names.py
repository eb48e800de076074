"""Names of columns that rows have by themselves, and of the view that SQL steps select from.

Imports no Arrow: the job file is checked with these names.
"""

from __future__ import annotations

from typing import NamedTuple

ROWS_VIEW = "__rows__"
"""The name of the rows in SQL steps."""

RESERVED_PREFIX = "_kseg_"
RUN_COLUMN = "_kseg_run"
LATE_COLUMN = "_kseg_late"
#: Which route of `sink.routes` a row takes, where that is not decided by its topic. It is not landed.
ROUTE_COLUMN = "_kseg_route"

# Parquet readers and Spark split names at some of these; Delta allows them with column mapping only.
FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=")


class AddressColumns(NamedTuple):
    """Names of the three columns that hold a row's address: string, int32, int64."""

    topic: str
    partition: str
    offset: str


OWN_ADDRESS = AddressColumns("topic", "partition", "offset")
KSEG_ADDRESS = AddressColumns("_kseg_topic", "_kseg_partition", "_kseg_offset")
#: Columns that decoded rows may have of Kafka's own, beside the address.
DECODED_COLUMNS = frozenset(
    f"{RESERVED_PREFIX}{name}"
    for name in (
        *("key", "value", "timestamp", "timestampType", "headers", "rescued", "late"),
        *("leaderEpoch", "producerId", "producerEpoch", "sequence", "transactional", "batchBaseOffset"),
        *("file", "position"),
        *("op", "source_ts", "connector_ts", "unavailable"),
    )
)
