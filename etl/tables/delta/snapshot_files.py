"""The data files of a Delta table's snapshot: what the log says of each, and its rows with the table's types.

Files are read by themselves, without the snapshot's reader, by whatever replaces them in a commit (`delta.rewrite`,
`delta.compaction`): it must know file by file which rows came from where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kseg.etl.rows.types import delta_type
from kseg.etl.tables.delta.paths import can_name
from kseg.etl.tables.parquet.partition_values import value_text
from kseg.etl.tables.parquet.storage import Opened
from kseg.etl.tables.removal import Bounds

_BATCH_ROWS: Final = 1 << 16
_FILES_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file of the table's snapshot. path: relative to the table, decoded. values: typed partition values.

    size: bytes. rows: None where statistics are missing. modified_ms: milliseconds since the epoch. nameable: whether
    delta-rs can remove it (`delta.paths`).
    """

    path: str
    size: int
    rows: int | None
    partition_values: Mapping[str, str | None]
    values: Mapping[str, Any]
    bounds: Mapping[str, Bounds]
    modified_ms: int
    nameable: bool

    @property
    def outside(self) -> bool:
        """Whether it lies outside of the table's folder (a shallow clone)."""
        return "://" in self.path or self.path.startswith("/")


def snapshot_files(table: DeltaTable, names: Iterable[str] = ()) -> Iterator[OldFile]:
    """The files of a snapshot, with the bounds of the named columns."""
    names = tuple(names)
    listed = pa.table(table.get_add_actions())
    wanted = ["path", "size_bytes", "modification_time", "num_records", "partition"]
    listed = pa.table({name: listed[name] for name in wanted if name in listed.column_names} | _of(listed, names))
    # A table may have a million files: as Python objects they take some kilobytes each, so not all at once.
    for entry in (entry for batch in listed.to_batches(_FILES_AT_ONCE) for entry in batch.to_pylist()):
        values = entry.get("partition") or {}
        yield OldFile(
            path=unquote(entry["path"]),
            size=entry["size_bytes"],
            rows=entry["num_records"],
            partition_values={name: value_text(value, name) for name, value in values.items()},
            values=values,
            bounds={name: _bounds(entry, values, name) for name in names},
            modified_ms=entry["modification_time"],
            nameable=can_name(entry["path"]),
        )


def _of(listed: pa.Table, names: Collection[str]) -> dict[str, pa.ChunkedArray]:
    """The statistics of the named columns alone, as structs: `min`, `max` and `null_count`."""
    found = {}
    for kind in ("min", "max", "null_count") if names else ():
        if kind not in listed.column_names:
            continue
        of_all = listed[kind].type
        there = [name for name in names if of_all.get_field_index(name) >= 0]
        fields = [pc.struct_field(listed[kind], [of_all.get_field_index(name)]) for name in there]
        found[kind] = pa.table(fields, names=there).to_struct_array() if there else pa.nulls(len(listed), pa.struct([]))
    return found


def _bounds(entry: Mapping[str, Any], values: Mapping[str, Any], name: str) -> Bounds:
    if name in values:
        value = values[name]
        return Bounds(value, value, entry["num_records"] if value is None else 0)
    low, high, nulls = ((entry.get(kind) or {}).get(name) for kind in ("min", "max", "null_count"))
    return Bounds(low, high, nulls)


def read_rows(store: Opened, file: OldFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The file's rows in its order and with its own types. columns: of these alone, those that the file has.

    Raises:
        RetriableFailure, ConfigurationError: the store cannot be read.
        FileNotFoundError: the file is gone.
    """
    with store.asked("cannot read a data file"), store.fs.open_input_file(store.path(file.path)) as source:
        # Spark may have written the file with its old 96-bit timestamps; in nanoseconds they could overflow.
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        wanted = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
        yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=wanted)


def conformed(rows: pa.RecordBatch, schema: pa.Schema, *, complete: bool = False) -> pa.RecordBatch:
    """Rows of a file, by any writer, with the table's types.

    complete: also with the columns that the file lacks, since they were added later; they are null. The columns come in
    the schema's order then.
    """
    there = set(rows.schema.names)
    names = schema.names if complete else [name for name in rows.schema.names if name in schema.names]
    fields = [pa.field(name, delta_type(schema.field(name).type)) for name in names]
    columns = [_cast(rows.column(f.name), f.type) if f.name in there else pa.nulls(len(rows), f.type) for f in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    # Delta's timestamps have microseconds: readers see no more of other writers' nanoseconds either.
    return pc.cast(column, options=pc.CastOptions(kind, allow_time_truncate=True))
