"""By which columns a Delta table is clustered: the last action `domainMetadata` of the domain `delta.clustering`.

    {"clusteringColumns": [["id"], ["address", "city"]], …}      physical names, field by field

(Delta protocol, "Clustered Table" and "Domain Metadata".) delta-rs does not give it, so log and checkpoint are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deltalake import DeltaTable

from kseg.etl.errors import RetriableFailure
from kseg.etl.tables.delta.log import read_commit
from kseg.etl.tables.delta.transactions import READING, newest_checkpoint
from kseg.etl.tables.parquet.storage import Opened

DOMAIN: Final = "delta.clustering"
FEATURE: Final = "clustering"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


def clustering_columns(table: DeltaTable, store: Opened) -> tuple[str, ...]:
    """The columns' names, nested ones with dots; empty if the table is not clustered.

    Raises:
        RetriableFailure: log entries were removed while they were read.
        RetriableFailure, ConfigurationError: the store cannot be read.
    """
    if FEATURE not in (table.protocol().writer_features or ()):
        return ()
    configuration = _configuration(store, table.version())
    if configuration is None:
        return ()
    paths: list[list[str]] = json.loads(configuration).get("clusteringColumns") or []
    schema = json.loads(table.schema().to_json())
    return tuple(".".join(_logical(schema, path)) for path in paths)


def _configuration(store: Opened, newest: int) -> str | None:
    """The domain's configuration in this version; None if it has none."""
    checkpoint, files = newest_checkpoint(store, newest)
    for version in range(newest, checkpoint, -1):
        commit = read_commit(store, version)
        if commit is None:
            raise RetriableFailure("entries of the table's log were removed while it was read", table=store.uri)
        if DOMAIN in commit.domains:
            return commit.domains[DOMAIN]
    for path in files:
        for action in _domains_in(store, path):
            if action["domain"] == DOMAIN:
                return None if action.get("removed") else action["configuration"]
    return None


def _domains_in(store: Opened, checkpoint: str) -> Iterator[Mapping[str, Any]]:
    try:
        if checkpoint.endswith(".json"):
            with store.asked(READING), store.fs.open_input_stream(checkpoint) as stream:
                lines = bytes(stream.read()).split(b"\n")
            actions = (json.loads(line).get("domainMetadata") for line in lines if line.strip())
            yield from (action for action in actions if action is not None)
            return
        import pyarrow.parquet as pq

        with store.asked(READING), store.fs.open_input_file(checkpoint) as source:
            parquet = pq.ParquetFile(source)
            if "domainMetadata" in parquet.schema_arrow.names:
                column = parquet.read(["domainMetadata"], use_threads=False)["domainMetadata"]
                yield from column.drop_null().to_pylist()
    except FileNotFoundError as error:
        raise RetriableFailure("a checkpoint was removed while it was read", table=store.uri) from error


def _logical(struct: Any, path: list[str]) -> list[str]:
    names = []
    for physical in path:
        fields = struct["fields"] if isinstance(struct, dict) else []
        found = next((f for f in fields if f["metadata"].get(_PHYSICAL_NAME, f["name"]) == physical), None)
        names.append(found["name"] if found is not None else physical)
        struct = found["type"] if found is not None else None
    return names
