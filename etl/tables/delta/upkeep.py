"""OPTIMIZE and VACUUM of one table: by delta-rs where it may rewrite its files, else by Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from kseg.etl.errors import ConfigurationError, KsegError, RetriableFailure
from kseg.etl.tables.delta.cleanup import data_files
from kseg.etl.tables.delta.features import spark_reasons
from kseg.etl.tables.delta.removal import quoted
from kseg.etl.tables.delta.table import TableAccess, table_properties, table_schema

if TYPE_CHECKING:
    from kseg.etl.tables.spark.writer import SparkTarget

TARGET_SIZE = 128 * 1024 * 1024
"""Bytes of a file that OPTIMIZE makes, unless the table says otherwise (`delta.targetFileSize`)."""

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class FileCount:
    """Files and their bytes together."""

    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, table: DeltaTable) -> FileCount:
        """The data files of a snapshot."""
        sizes = pa.chunked_array(table.get_add_actions().column("size_bytes"))
        return cls(len(sizes), pc.sum(sizes).as_py() or 0)


class Upkeep(Protocol):
    """One table's upkeep. Every method may raise RetriableFailure and KsegError."""

    by: str

    def version(self) -> int: ...

    def live(self) -> FileCount:
        """The newest version's files."""

    def stored(self) -> FileCount | None:
        """All data files in the table's folder; None where it cannot be listed."""

    def optimize(self, z_order: Sequence[str], *, dry_run: bool, told: Mapping[str, Any]) -> int | None:
        """Make few files of many; returns how many were (or would be) rewritten, None where that cannot be told.

        z_order: columns whose near values come into the same files. told: stands in the commit.
        """

    def vacuum(self, retention: timedelta, *, dry_run: bool) -> FileCount:
        """Delete files that no version younger than the retention holds, and those of no version that are older."""


class _Looking:
    """What is the same whoever writes."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access

    def _load(self) -> DeltaTable:
        table = self._access.load()
        if table is None:
            raise KsegError("there is no table", table=self._access.name)
        return table

    def version(self) -> int:
        return int(self._load().version())

    def live(self) -> FileCount:
        return FileCount.of(self._load())

    def stored(self) -> FileCount | None:
        store = self._access.location.open()
        try:
            # Without the checksums that Hadoop's local file system puts beside what it writes.
            files = [info for info in data_files(store.fs, store.root) if not info.base_name.startswith(".")]
        except OSError:
            return None
        return FileCount(len(files), sum(info.size or 0 for info in files))

    def _check_columns(self, names: Collection[str]) -> None:
        known = {name.lower() for name in table_schema(self._load()).names}
        if missing := [name for name in names if name.lower() not in known]:
            raise ConfigurationError.of(
                "--z-order", f"{self._access.name} has no column {', '.join(missing)}", f"it has {', '.join(known)}"
            )

    def _sizes(self, paths: Collection[str]) -> int:
        store = self._access.location.open()
        wanted = set(paths)
        try:
            infos = data_files(store.fs, store.root)
        except OSError:
            return 0
        return sum(info.size or 0 for info in infos if info.path[len(store.root) :].lstrip("/") in wanted)


class DeltaUpkeep(_Looking):
    """By delta-rs, without Spark."""

    by = "delta-rs"

    @staticmethod
    def hindrances(access: TableAccess) -> tuple[str, ...]:
        """Why delta-rs may not rewrite the table's files."""
        table = access.load()
        if table is None:
            return ()
        reasons = list(spark_reasons(table))
        features = [*(table.protocol().reader_features or ())]
        if "deletionVectors" in features and any(batch.num_rows for batch in table.deletion_vectors()):
            reasons.append("deletion vectors in use")
        return tuple(reasons)

    def optimize(self, z_order: Sequence[str], *, dry_run: bool, told: Mapping[str, Any]) -> int | None:
        self._check_columns(z_order)
        table = self._load()
        target = int(table_properties(table).get("delta.targetFileSize", TARGET_SIZE))
        if dry_run:
            return FileCount.of(table).files if z_order else _small_files(table, target)
        commit = CommitProperties(custom_metadata={"kseg": {**told, "maintain": "optimize"}})
        try:
            if z_order:
                found = table.optimize.z_order(list(z_order), target_size=target, commit_properties=commit)
            else:
                found = table.optimize.compact(target_size=target, commit_properties=commit)
        except CommitFailedError as error:
            raise RetriableFailure(
                f"another writer changed the files that were rewritten: {error}",
                remedy="run it again",
                table=self._access.name,
            ) from error
        except (DeltaError, OSError) as error:
            raise self._access.fault("cannot optimize", error) from error
        return int(found["numFilesRemoved"])

    def vacuum(self, retention: timedelta, *, dry_run: bool) -> FileCount:
        try:
            # Full: what attempts left that never landed stands in no version. Files younger than the retention stay.
            going = self._vacuum(retention, dry_run=True)
            size = self._sizes(going)
            if not dry_run and going:
                self._vacuum(retention, dry_run=False)
        except (DeltaError, OSError) as error:
            raise self._access.fault("cannot vacuum", error) from error
        return FileCount(len(going), size)

    def _vacuum(self, retention: timedelta, *, dry_run: bool) -> list[str]:
        return self._load().vacuum(retention // _HOUR, dry_run=dry_run, enforce_retention_duration=False, full=True)


class SparkUpkeep(_Looking):
    """By Spark's own Delta, which knows all table features; clustered tables are clustered by OPTIMIZE."""

    by = "spark"

    def __init__(self, access: TableAccess, target: SparkTarget) -> None:
        super().__init__(access)
        self._target = target

    def check_store(self) -> None:
        """As for any commit of Spark's. Raises ConfigurationError."""
        self._target.check_store()

    def optimize(self, z_order: Sequence[str], *, dry_run: bool, told: Mapping[str, Any]) -> int | None:
        self._check_columns(z_order)
        if dry_run:
            return None
        order = f" ZORDER BY ({', '.join(quoted(name) for name in z_order)})" if z_order else ""
        metrics = self._target.sql(f"OPTIMIZE {{table}}{order}")[0]["metrics"]
        return int(metrics["numFilesRemoved"])

    def vacuum(self, retention: timedelta, *, dry_run: bool) -> FileCount:
        root = self._access.location.open().root
        hours = retention // _HOUR
        before = self.stored()
        with self._target.set_up_for_vacuum():
            if dry_run:
                paths = [str(row["path"]).removeprefix("file:") for row in self._vacuum(hours, " DRY RUN")]
                inside = [path[len(root) :].lstrip("/") for path in paths if path.startswith(root)]
                return FileCount(len(paths), self._sizes(inside))
            self._vacuum(hours, "")
        after = self.stored()
        if before is None or after is None:
            return FileCount()
        return FileCount(max(0, before.files - after.files), max(0, before.bytes - after.bytes))

    def _vacuum(self, hours: int, mode: str) -> list[Any]:
        return self._target.sql(f"VACUUM {{table}} RETAIN {hours} HOURS{mode}")


def _small_files(table: DeltaTable, target: int) -> int:
    """How many files a compaction would take: those below the target, where a partition has more than one."""
    actions = pa.table(table.get_add_actions())
    columns = ["partition"] if "partition" in actions.column_names else []
    small: dict[str, int] = {}
    for row in actions.select([*columns, "size_bytes"]).to_pylist():
        if row["size_bytes"] < target:
            key = str(row.get("partition"))
            small[key] = small.get(key, 0) + 1
    return sum(count for count in small.values() if count > 1)
