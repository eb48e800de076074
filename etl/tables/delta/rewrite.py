"""Removing rows from a Delta table whose files we commit ourselves: whole files go, files hit in part are rewritten.

The outcome is a set of files to remove and a set to add, for the commit that also adds a run's new rows: readers see
both or neither. A file is read only where its statistics do not decide; rewritten ones are remembered, so that after a
commit lost to another writer only new files are examined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from kseg.etl.tables.delta.snapshot_files import OldFile, conformed, read_rows, snapshot_files
from kseg.etl.tables.errors import NeedsSparkWriter
from kseg.etl.tables.file_names import FileOwner, file_name
from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.removal import Removal, Verdict


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
    """Carries out one removal for one run, over as many snapshots of the table as its commit takes.

    owner: of the files that are written; None where rows are counted alone.
    """

    location: TableLocation
    removal: Removal
    owner: FileOwner | None = None
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
        if file.outside:
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
        assert self.owner is not None
        path = f"{folder}{slash}{file_name(self.owner, 0, 0, 0)}"
        target: DataFile | None = None
        try:
            for rows, mask in self._read(file, only=False):
                # Conformed first: files that delta-rs itself wrote come as view types, which have no filter.
                kept = conformed(rows, schema).filter(pc.invert(mask))
                if not kept.num_rows:
                    continue
                if target is None:
                    target = DataFile(
                        self.location.open(), path, kept.schema, StatsCollector(spec, kept.schema), self.options
                    )
                target.write(kept)
        except BaseException:
            if target is not None:
                target.delete()
            raise
        return target.close(self.location.uri, dict(file.partition_values)) if target is not None else None

    def _read(self, file: OldFile, *, only: bool) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        """The file's rows (or only the columns that decide) with the removal's mask."""
        columns = tuple(self.removal.columns) if only else None
        for rows in read_rows(self.location.open(), file, columns):
            deciding = {n: _deciding(rows, file, n, kind) for n, kind in self.removal.columns.items()}
            yield rows, self.removal.mask(deciding, rows.num_rows)


def _deciding(rows: pa.RecordBatch, file: OldFile, name: str, kind: pa.DataType) -> pa.Array:
    if name in rows.schema.names:
        return rows.column(name).cast(kind)
    return pa.repeat(pa.scalar(file.values.get(name), kind), rows.num_rows)
