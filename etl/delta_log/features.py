"""Which tables can be read, by the protocol of a snapshot.

The list is of what is supported: a feature that is not on it is refused by its name, also one that is not known yet
(Delta protocol, "Valid Feature Names in Table Features").
"""

from __future__ import annotations

from typing import Final

from kseg.etl.delta_log.actions import TableProtocol
from kseg.etl.delta_log.errors import UnsupportedTable

READABLE: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features with which the log is read as without them, or which are known here (`v2Checkpoint`,
`deletionVectors`). Not among them: `catalogManaged`, whose newest commits only the catalog has."""


def check_readable(protocol: TableProtocol, *, table: str, version: int) -> None:
    """Raises UnsupportedTable: the table has reader features, or a reader version, that are not known here."""
    reasons = [f"table feature {name}" for name in sorted(set(protocol.reader_features or ()) - READABLE)]
    if protocol.min_reader_version > 3:
        reasons.append(f"reader version {protocol.min_reader_version}")
    if reasons:
        raise UnsupportedTable(reasons, table=table, version=version)
