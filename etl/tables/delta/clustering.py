"""By which columns a Delta table is clustered: the last action `domainMetadata` of the domain `delta.clustering`.

    {"clusteringColumns": [["id"], ["address", "city"]], …}      physical names, field by field

(Delta protocol, "Clustered Table" and "Domain Metadata".) delta-rs does not give it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from kseg.etl.delta_log.actions import MalformedAction
from kseg.etl.delta_log.replay import LogSnapshot

DOMAIN: Final = "delta.clustering"
FEATURE: Final = "clustering"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


def clustering_columns(table: LogSnapshot) -> tuple[str, ...]:
    """The columns' names, nested ones with dots; empty if the table is not clustered, or not as the protocol says."""
    found = table.domains.get(DOMAIN)
    if found is None or FEATURE not in (table.protocol.writer_features or ()):
        return ()
    try:
        configured = json.loads(found.configuration)
    except ValueError:
        return ()
    paths = configured.get("clusteringColumns") if isinstance(configured, dict) else None
    # A column that is no field of a struct may stand as its name alone.
    as_lists = [[path] if isinstance(path, str) else path for path in paths or ()]
    try:
        schema: Any = table.metadata.schema
    except MalformedAction:
        schema = None  # physical names are better than none
    return tuple(".".join(_logical(schema, path)) for path in as_lists)


def _logical(struct: Any, path: Sequence[str]) -> list[str]:
    names = []
    for physical in path:
        fields = struct["fields"] if isinstance(struct, dict) else []
        found = next((f for f in fields if (f.get("metadata") or {}).get(_PHYSICAL_NAME, f["name"]) == physical), None)
        names.append(found["name"] if found is not None else physical)
        struct = found["type"] if found is not None else None
    return names
