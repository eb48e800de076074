"""OPTIMIZE and VACUUM of a Delta table without Spark, for tables whose files may be rewritten so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from kseg.etl.errors import ConfigurationError, KsegError, RetriableFailure
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.ledger.lease import Lease
from kseg.etl.rows.names import RUN_COLUMN
from kseg.etl.tables.delta.cleanup import data_files
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.compaction import Compaction, plan_bins
from kseg.etl.tables.delta.features import Z_ORDER_BY_SPARK, maintenance_reasons
from kseg.etl.tables.delta.intervals import parse_interval
from kseg.etl.tables.delta.table import DeltaAccess, sql_literal, table_properties, table_schema
from kseg.etl.tables.protocol import Maintenance
from kseg.etl.tables.values import FileCount

HOUR = timedelta(hours=1)

RETENTION_PROPERTY: Final = "delta.deletedFileRetentionDuration"

DELETES_AT_ONCE = 16


class DeltaFiles(Maintenance):
    """Counts of a Delta table's files, also for tables that only Spark writes to."""

    def __init__(self, access: DeltaAccess) -> None:
        self._access = access

    def _load(self) -> DeltaTable:
        table = self._access.load()
        if table is None:
            raise KsegError("there is no table", table=self._access.name)
        return table

    def version(self) -> int:
        return int(self._load().version())

    def live(self) -> FileCount:
        return _live(self._load())

    def stored(self) -> FileCount | None:
        store = self._access.location.open()
        try:
            # Without the checksums that Hadoop's local file system puts beside what it writes.
            files = [info for info in data_files(store.fs, store.root) if not info.base_name.startswith(".")]
        except OSError:
            return None
        return FileCount(len(files), sum(info.size or 0 for info in files))

    def retention(self) -> timedelta | None:
        text = table_properties(self._load()).get(RETENTION_PROPERTY)
        if text is None:
            return None
        try:
            return parse_interval(text)
        except ValueError as error:
            raise ConfigurationError.of(
                "--vacuum", f"{self._access.name}: {RETENTION_PROPERTY}: {error}", "set it as in 'interval 7 days'"
            ) from error

    def check_columns(self, names: Collection[str]) -> None:
        """Raises ConfigurationError where the table lacks a column to order by."""
        known = {name.lower() for name in table_schema(self._load()).names}
        if missing := [name for name in names if name.lower() not in known]:
            raise ConfigurationError.of(
                "--z-order", f"{self._access.name} has no column {', '.join(missing)}", f"it has {', '.join(known)}"
            )

    def sizes(self, paths: Collection[str]) -> int:
        """Bytes of these data files together, of those that are there. paths: relative to the table."""
        store = self._access.location.open()
        wanted = set(paths)
        try:
            infos = data_files(store.fs, store.root)
        except OSError:
            return 0
        return sum(info.size or 0 for info in infos if info.path[len(store.root) :].lstrip("/") in wanted)


class DeltaMaintenance(DeltaFiles):
    """By delta-rs, without Spark."""

    by = "delta-rs"

    def __init__(self, target: DeltaTarget, stores: StoreChecks) -> None:
        super().__init__(target)
        self._target, self._stores = target, stores

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        with self._target.exclusively(lease, wait=wait):
            yield

    def check_store(self) -> None:
        place = self._access.location
        self._stores.check(place.uri, dict(place.options), making=False, table=self._access.name)

    @staticmethod
    def spark_reasons(access: DeltaAccess) -> tuple[str, ...]:
        """Why only Spark may maintain the table; empty where delta-rs may."""
        table = access.load()
        return () if table is None else maintenance_reasons(table)

    def optimize(self, z_order: Sequence[str], *, dry_run: bool, details: Mapping[str, Any]) -> int | None:
        if z_order:
            raise ValueError(Z_ORDER_BY_SPARK)
        if dry_run:
            return sum(len(files) for files in plan_bins(self._load()))
        return Compaction(self._target, details).run()

    def vacuum(self, retention: timedelta, before: datetime, *, dry_run: bool) -> FileCount:
        store = self._access.location.open()
        try:
            # Full: no version names the files of attempts that never landed. Only listed by delta-rs: it counts the
            # retention from when it begins, so a process that was suspended before would delete too much.
            listed = set(
                self._load().vacuum(retention // HOUR, dry_run=True, enforce_retention_duration=False, full=True)
            )
            infos = data_files(store.fs, store.root) if listed else []
            going = [
                info
                for info in infos
                if info.path[len(store.root) :].lstrip("/") in listed and info.mtime is not None and info.mtime < before
            ]
            if not dry_run:
                self._delete(store.fs, [info.path for info in going])
        except (DeltaError, OSError) as error:
            raise self._access.fault("cannot vacuum", error) from error
        return FileCount(len(going), sum(info.size or 0 for info in going))

    def delete_runs(self, runs: Sequence[str], *, details: Mapping[str, Any]) -> int:
        listed = ", ".join(map(sql_literal, runs))
        commit = CommitProperties(custom_metadata={"kseg": {**details, "maintain": "retention"}})
        try:
            found = self._load().delete(f'"{RUN_COLUMN}" IN ({listed})', commit_properties=commit)
        except CommitFailedError as error:
            raise RetriableFailure(
                f"another writer changed the table meanwhile: {error}", remedy="run it again", table=self._access.name
            ) from error
        except (DeltaError, OSError) as error:
            raise self._access.fault("cannot delete rows", error) from error
        return int(found["num_deleted_rows"] or 0)

    @staticmethod
    def _delete(fs: pafs.FileSystem, paths: Sequence[str]) -> None:
        def delete(path: str) -> None:
            with suppress(FileNotFoundError):
                fs.delete_file(path)

        with ThreadPoolExecutor(DELETES_AT_ONCE, thread_name_prefix="kseg-vacuum") as pool:
            list(pool.map(delete, paths))


def _live(table: DeltaTable) -> FileCount:
    sizes = pa.chunked_array(table.get_add_actions().column("size_bytes"))
    return FileCount(len(sizes), pc.sum(sizes).as_py() or 0)
