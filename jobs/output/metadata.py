"""`kseg metadata`: tables of the metadata log as a document for people, and as files and Delta tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, write_deltalake

from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.metadata_log import ReplayedMetadata, read_metadata
from kseg.etl.internal_topics.metadata_tables import metadata_tables
from kseg.etl.ledger.store_errors import check_place


@dataclass(frozen=True, slots=True)
class MetadataTables:
    """The metadata, and the requested tables of it."""

    metadata: ReplayedMetadata
    tables: dict[str, pa.Table]

    def rows(self, *, brief: bool = False) -> dict[str, Any]:
        """A list of rows for each table; times as ISO 8601. brief: without empty columns, and without ids."""
        return {
            name: [_plain(row) for row in (_brief(name, table) if brief else table).to_pylist()]
            for name, table in self.tables.items()
        }


def document(log_dirs: LogDirs, at: int | None, names: tuple[str, ...]) -> tuple[MetadataTables, str]:
    """The tables at an offset, and a headline. Raises as `etl.internal_topics.metadata_log.read_metadata`."""
    found = read_metadata(log_dirs, at)
    image = found.image
    cluster = f"cluster {found.cluster_id}" if found.cluster_id else "a cluster without a name"
    headline = f"{cluster} at offset {found.end_offset}: {len(image.topics)} topics, {len(image.brokers)} brokers" + (
        f", {len(found.notes)} notes" if found.notes else ""
    )
    return MetadataTables(found, metadata_tables(found, names)), headline


def write(selected: MetadataTables, form: Literal["arrow", "parquet", "delta"], output: str) -> dict[str, int]:
    """Write each table; returns their numbers of rows. A Delta table's commit metadata has cluster id and offset.

    Raises:
        ConfigurationError: delta-rs cannot open a table there.
    """
    if form == "delta":
        check_place(output if "://" in output else str(Path(output).absolute()), setting="--output")
    for name, table in selected.tables.items():
        if form == "delta":
            origin = {"cluster_id": selected.metadata.cluster_id or "", "end_offset": str(selected.metadata.end_offset)}
            write_deltalake(
                f"{output.rstrip('/')}/{name}",
                _with_micros(table),
                mode="overwrite",
                schema_mode="overwrite",
                commit_properties=CommitProperties(custom_metadata=origin),
            )
            continue
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            pq.write_table(table, folder / f"{name}.parquet")
        else:
            with pa.ipc.new_file(str(folder / f"{name}.arrow"), table.schema) as sink:
                sink.write_table(table)
    return {name: table.num_rows for name, table in selected.tables.items()}


def _with_micros(table: pa.Table) -> pa.Table:
    """Timestamps in microseconds: Delta has no other precision."""
    kinds = [pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(one.type) else one.type for one in table.schema]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


def _brief(name: str, table: pa.Table) -> pa.Table:
    """Without columns that are empty in every row, and without ids where there are names."""
    ids = set() if name == "topics" else {"topic_id", "directories", "incarnation_id", "directory_id", "id"}
    columns = [column for column in table.schema.names if column not in ids and any(table[column].to_pylist())]
    return table.select(columns)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _time(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _time(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
