"""Removing rows from a Delta table whose files we commit ourselves: whole files go, files hit in part are rewritten.

The outcome is a set of files to remove and a set to add, for the commit that also adds a run's new rows: readers see
both or neither. A file is read only where its statistics do not decide; rewritten ones are remembered, so that after a
commit lost to another writer only new files are examined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kseg.etl.tables.errors import NeedsSparkWriter
from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.partition_values import value_text
from kseg.etl.tables.parquet.schema import delta_type
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.parquet.task_output import WrittenFile, file_name
from kseg.etl.tables.removal import Bounds, Removal, Verdict

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file of the table's snapshot. path: relative to the table, decoded. values: typed partition values."""

    path: str
    size: int
    rows: int | None
    partition_values: Mapping[str, str | None]
    values: Mapping[str, Any]
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What becomes of one file. removed: rows that go; `left`: the file that holds the others, None for none."""

    removed: int
    left: WrittenFile | None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files to remove and to add in one commit."""

    gone: tuple[OldFile, ...] = ()
    added: tuple[WrittenFile, ...] = ()
    rows_removed: int = 0


@dataclass(slots=True)
class Rewriter:
    """Carries out one removal for one run, over as many snapshots of the table as its commit takes."""

    location: TableLocation
    removal: Removal
    run_id: str
    options: WriterOptions = field(default_factory=WriterOptions)
    _counted: dict[str, int] = field(default_factory=dict)
    _done: dict[str, Rewritten] = field(default_factory=dict)

    def plan(self, table: DeltaTable) -> Rewrite:
        """What to do to this snapshot. Files left over from a former plan are written no second time.

        Raises:
            NeedsSparkWriter: a file with such rows lies outside of the table's folder (a shallow clone).
        """
        gone: list[OldFile] = []
        added: list[WrittenFile] = []
        removed = 0
        for file in snapshot_files(table, self.removal.columns):
            outcome = self._done.get(file.path) or self._decide(table, file)
            if outcome is None:
                continue
            self._done[file.path] = outcome
            gone.append(file)
            removed += outcome.removed
            if outcome.left is not None:
                added.append(outcome.left)
        return Rewrite(tuple(gone), tuple(added), removed)

    def matches(self, table: DeltaTable) -> bool:
        """Whether the removal means any row of this snapshot: by statistics, else by the rows; nothing is written.

        Raises:
            NeedsSparkWriter: as `plan`.
        """
        return any(self._hits(file) for file in snapshot_files(table, self.removal.columns))

    def count(self, table: DeltaTable) -> int:
        """How many rows of this snapshot the removal means; nothing is written."""
        return sum(self._hits(file) for file in snapshot_files(table, self.removal.columns))

    def discard(self, kept: Rewrite | None = None) -> None:
        """Delete rewritten files that no commit holds."""
        committed = {file.path for file in kept.added} if kept else set()
        store = self.location.open()
        for outcome in self._done.values():
            if outcome.left is not None and outcome.left.path not in committed:
                with contextlib.suppress(OSError):
                    store.fs.delete_file(store.path(outcome.left.path))
        self._done.clear()

    def _decide(self, table: DeltaTable, file: OldFile) -> Rewritten | None:
        hits = self._hits(file)
        if not hits:
            return None
        if hits == file.rows:
            return Rewritten(hits, None)
        return Rewritten(hits, self._without(table, file))

    def _hits(self, file: OldFile) -> int:
        verdict = self.removal.verdict(file.bounds)
        if verdict is Verdict.NONE:
            return 0
        if "://" in file.path or file.path.startswith("/"):
            raise NeedsSparkWriter(self.location.uri, ["files outside of the table's folder (a shallow clone)"])
        if verdict is Verdict.ALL and file.rows is not None:
            return file.rows
        if file.path not in self._counted:
            masks = (mask for _, mask in self._read(file, only=True))
            self._counted[file.path] = sum(pc.sum(mask).as_py() or 0 for mask in masks)
        return self._counted[file.path]

    def _without(self, table: DeltaTable, file: OldFile) -> WrittenFile | None:
        schema = pa.schema(table.schema().to_arrow())
        partition_by = table.metadata().partition_columns
        properties = {k: v for k, v in table.metadata().configuration.items() if v is not None}
        spec = StatsSpec.of(schema, partition_by, properties)
        folder, slash, _ = file.path.rpartition("/")
        path = f"{folder}{slash}{file_name(self.run_id, 0, 0, 0)}"
        target: DataFile | None = None
        try:
            for rows, mask in self._read(file, only=False):
                # Conformed first: files that delta-rs itself wrote come as view types, which have no filter.
                kept = _conformed(rows, schema).filter(pc.invert(mask))
                if not kept.num_rows:
                    continue
                if target is None:
                    target = DataFile(
                        self.location.open(), path, kept.schema, StatsCollector(spec, kept.schema), self.options
                    )
                target.append(kept)
                if (
                    target.buffered >= self.options.row_group_bytes
                    or target.buffered_rows >= self.options.row_group_rows
                ):
                    target.flush()
        except BaseException:
            if target is not None:
                target.delete()
            raise
        return target.close(self.location.uri, dict(file.partition_values)) if target is not None else None

    def _read(self, file: OldFile, *, only: bool) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        """The file's rows (or only the columns that decide) with the removal's mask."""
        store = self.location.open()
        with store.asked("cannot read a data file"), store.fs.open_input_file(store.path(file.path)) as source:
            # Spark may have rewritten the file with its old 96-bit timestamps; in nanoseconds they could overflow.
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            wanted = [name for name in self.removal.columns if name in parquet.schema_arrow.names]
            for rows in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=wanted if only else None):
                deciding = {n: _deciding(rows, file, n, kind) for n, kind in self.removal.columns.items()}
                yield rows, self.removal.mask(deciding, rows.num_rows)


def snapshot_files(table: DeltaTable, names: Iterable[str]) -> Iterator[OldFile]:
    """The files of a snapshot, with the bounds of the named columns."""
    listed = pa.table(table.get_add_actions()).to_pylist()
    for entry in listed:
        values = entry.get("partition") or {}
        yield OldFile(
            path=unquote(entry["path"]),
            size=entry["size_bytes"],
            rows=entry["num_records"],
            partition_values={name: value_text(value, name) for name, value in values.items()},
            values=values,
            bounds={name: _bounds(entry, values, name) for name in names},
        )


def _bounds(entry: Mapping[str, Any], values: Mapping[str, Any], name: str) -> Bounds:
    if name in values:
        value = values[name]
        return Bounds(value, value, entry["num_records"] if value is None else 0)
    low, high, nulls = ((entry.get(kind) or {}).get(name) for kind in ("min", "max", "null_count"))
    return Bounds(low, high, nulls)


def _deciding(rows: pa.RecordBatch, file: OldFile, name: str, kind: pa.DataType) -> pa.Array:
    if name in rows.schema.names:
        return rows.column(name).cast(kind)
    return pa.repeat(pa.scalar(file.values.get(name), kind), rows.num_rows)


def _conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a file, by any writer, with the table's types."""
    fields = [pa.field(name, delta_type(schema.field(name).type)) for name in rows.schema.names if name in schema.names]
    columns = [rows.column(f.name) for f in fields]
    cast = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=pa.schema(fields))
