"""Compaction of a Delta table: its small files become fewer large ones, in one commit that is a compare-and-swap.

    plan bins of small files ──► rewrite each bin as one file ──► commit: files removed and added, no change of data

The commit is made with the snapshot that was checked (`etl.tables.delta.table`). After a lost race the newest snapshot
is taken, those bins are dropped of which somebody else has replaced a file, and the others are committed.

delta-rs' own OPTIMIZE is of no use: its conflict check (1.6.6) passes over files that were removed without a change of
data. Of two OPTIMIZE that rewrite the same files it commits both, and every row is there twice.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from kseg.etl.errors import KsegError, Refused
from kseg.etl.tables.delta.checkpoints import write_checkpoint_if_due
from kseg.etl.tables.delta.cleanup import snapshot_paths
from kseg.etl.tables.delta.features import compaction_reasons
from kseg.etl.tables.delta.log import read_commit
from kseg.etl.tables.delta.snapshot_files import OldFile, conformed, read_rows, snapshot_files
from kseg.etl.tables.delta.table import DeltaAccess, commit_files, commit_properties, table_properties, table_schema
from kseg.etl.tables.errors import NeedsSparkWriter
from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.task_output import WrittenFile

TARGET_SIZE: Final = 128 * 1024 * 1024
"""Bytes of a file that OPTIMIZE makes, unless the table says otherwise (`delta.targetFileSize`)."""

_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

AT_ONCE: Final = min(4, os.cpu_count() or 1)
"""Bins that are rewritten at the same time. Arrow decodes a file's columns in threads, and writes with one a file."""

Bin = tuple[OldFile, ...]


def plan_bins(table: DeltaTable) -> list[Bin]:
    """Files below the target size that come together: two or more of one partition, no larger than it altogether.

    They are taken in the order in which they were written, so that rows that are near each other stay so. Files that
    cannot be removed here are left alone: those outside of the table's folder (a shallow clone), and `delta.paths`.
    """
    target = _target_size(table_properties(table).get("delta.targetFileSize"))
    partitions: dict[tuple[str | None, ...], list[OldFile]] = {}
    for file in snapshot_files(table):
        if file.size < target and file.nameable and not file.outside:
            partitions.setdefault(tuple(file.partition_values.values()), []).append(file)
    found: list[Bin] = []
    for files in partitions.values():
        files.sort(key=lambda file: (file.modified_ms, file.path))
        found += [one for one in _filled(files, target) if len(one) > 1]
    return found


def _target_size(text: str | None) -> int:
    """Bytes of `104857600` or `100mb`, both of which Databricks allows; TARGET_SIZE if it is neither."""
    found = _SIZE.fullmatch((text or "").strip())
    return int(found[1]) << _UNITS[found[2].lower()] if found is not None and int(found[1]) else TARGET_SIZE


def _filled(files: Sequence[OldFile], target: int) -> Iterator[Bin]:
    taken: list[OldFile] = []
    size = 0
    for file in files:
        if taken and size + file.size > target:
            yield tuple(taken)
            taken, size = [], 0
        taken.append(file)
        size += file.size
    yield tuple(taken)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A bin, and the file that has its rows."""

    old: Bin
    new: WrittenFile


class Compaction:
    """One compaction of one table, over as many attempts to commit it as it takes.

    details: kept in the commit. options: of the files; all bins together hold no more than `buffered_bytes`.
    """

    def __init__(self, access: DeltaAccess, details: Mapping[str, Any], options: WriterOptions | None = None) -> None:
        options = options or WriterOptions()
        row_group = min(options.row_group_bytes, options.buffered_bytes // AT_ONCE)
        self._access, self._options = access, replace(options, row_group_bytes=row_group)
        self._attempt_id = uuid.uuid4().hex
        self._details = {**details, "maintain": "optimize", "attempt": self._attempt_id}
        self._rewritten: list[_Rewritten] = []
        self._tried: dict[int, set[str]] = {}
        """By version that a commit was tried as: the new files of these commits."""
        self._stop = threading.Event()

    def run(self) -> int:
        """Compact the table; returns how many files were replaced, 0 where there was nothing to do.

        Raises:
            NeedsSparkWriter: the table has come by a feature that delta-rs cannot honour.
            Refused: a data file of the table is missing (`files-missing`).
            TableBusy: other writers kept committing first.
            RetriableFailure, ConfigurationError: of the store.
            KsegError: a data file cannot be read, or its rows are not as many as the log says.
        """
        table = self._load()
        bins = plan_bins(table)
        if not bins:
            return 0
        try:
            self._rewrite(table, bins)
            return self._access.until_deadline(self._commit)
        finally:
            self._clean_up()

    def _load(self) -> DeltaTable:
        """The newest snapshot, if its files may be replaced here: one that Spark has marked rows of as deleted (in a
        deletion vector) keeps its path."""
        table = self._access.load()
        if table is None:
            raise KsegError("there is no table", table=self._access.name)
        if reasons := compaction_reasons(table):
            raise NeedsSparkWriter(self._access.name, reasons)
        return table

    # --- rewriting ---------------------------------------------------------------------------------------------------

    def _rewrite(self, table: DeltaTable, bins: Sequence[Bin]) -> None:
        schema, partition_by = table_schema(table), table.metadata().partition_columns
        spec = StatsSpec.of(schema, partition_by, table_properties(table))
        file_schema = pa.schema([column for column in schema if column.name not in partition_by])
        with ThreadPoolExecutor(min(AT_ONCE, len(bins)), thread_name_prefix="kseg-compaction") as pool:
            futures = [pool.submit(self._rewrite_bin, one, file_schema, spec) for one in bins]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _rewrite_bin(self, old: Bin, schema: pa.Schema, spec: StatsSpec) -> None:
        """Write the rows of a bin's files as one file; nothing where another writer has taken a file's place."""
        folder, slash, _ = old[0].path.rpartition("/")
        path = f"{folder}{slash}part-00000-{uuid.uuid4()}.parquet"  # no name of a run's file (`cleanup`)
        kinds = conformed(pa.RecordBatch.from_pylist([], schema=pa.schema([])), schema, complete=True).schema
        store = self._access.location.open_for_writing()
        target = DataFile(store, path, kinds, StatsCollector(spec, kinds), self._options)
        rows = 0
        try:
            for file in old:
                found = self._copy(file, schema, target)
                if found is None:
                    target.delete()
                    return
                rows += found
            new = target.close(self._access.location.uri, dict(old[0].partition_values))
            if new.rows != rows:
                raise KsegError(f"{new.rows} rows were written of {rows} that were read", table=self._access.name)
        except BaseException:
            target.delete()
            raise
        self._rewritten.append(_Rewritten(old, new))

    def _copy(self, file: OldFile, schema: pa.Schema, target: DataFile) -> int | None:
        """Append a file's rows; returns how many there were, None where there is nothing to do any more."""
        rows = 0
        try:
            for batch in read_rows(self._access.location.open(), file):
                if self._stop.is_set():
                    return None
                rows += batch.num_rows
                target.write(conformed(batch, schema, complete=True))
        except FileNotFoundError as error:
            if file.path not in snapshot_paths(self._load()):
                return None
            table = self._access.name
            raise Refused.of("files-missing", {"path": file.path}, case="while compacting", table=table) from error
        except pa.ArrowException as error:
            raise KsegError(f"cannot rewrite {file.path}: {error}", table=self._access.name) from error
        if file.rows is not None and rows != file.rows:
            message = f"{file.path} has {rows} rows, and {file.rows} by the table's log"
            raise KsegError(message, table=self._access.name)
        return rows

    # --- committing --------------------------------------------------------------------------------------------------

    def _commit(self) -> int:
        """One attempt.

        Raises:
            LostRace: another writer made the version.
        """
        table = self._load()
        for version in self._tried:
            commit = read_commit(self._access.log, version)
            if commit is not None and commit.details.get("attempt") == self._attempt_id:
                return commit.removed  # only the answer was lost
        left = self._left(table)
        if not left:
            return 0
        before, files = table.version(), sum(len(one.old) for one in left)
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [_add(one.new) for one in left]
        actions += [_remove(file, now) for one in left for file in one.old]
        people = json.dumps({"maintain": "optimize", "files": files, "into": len(left)})
        self._tried.setdefault(before + 1, set()).update(one.new.path for one in left)
        try:
            commit_files(table, actions, commit_properties(self._details, people))
        except (DeltaError, OSError) as error:
            raise self._access.race_or(error, before) from error
        write_checkpoint_if_due(table, self._access.location.open())
        return files

    def _left(self, table: DeltaTable) -> list[_Rewritten]:
        """The bins whose old files are all in the snapshot, and whose new file nobody has deleted (a VACUUM)."""
        live = snapshot_paths(table)
        left = [one for one in self._rewritten if live.issuperset(file.path for file in one.old)]
        store = self._access.location.open()
        with store.asked("cannot search for new data files"):
            infos = store.fs.get_file_info([store.path(one.new.path) for one in left])
        return [one for one, info in zip(left, infos, strict=True) if info.type == pafs.FileType.File]

    def _clean_up(self) -> None:
        """Delete the new files that no commit can hold: one may have been made although it failed here."""
        held: set[str] = set()
        store = self._access.location.open()
        for version, paths in self._tried.items():
            commit = None
            with suppress(KsegError):
                commit = read_commit(self._access.log, version)
            if commit is None or commit.details.get("attempt") == self._attempt_id:
                held |= paths
        for one in self._rewritten:
            if one.new.path not in held:
                with suppress(OSError):
                    store.fs.delete_file(store.path(one.new.path))


def _add(file: WrittenFile) -> AddAction:
    return AddAction(file.path, file.size, dict(file.partition_values), file.modified_ms, False, file.stats)


def _remove(file: OldFile, now: int) -> RemoveAction:
    return RemoveAction(file.path, False, now, size=file.size, partition_values=dict(file.partition_values))
