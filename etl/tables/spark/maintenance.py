"""OPTIMIZE and VACUUM of a Delta table by Spark, for tables whose files delta-rs may not rewrite, and Z-order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from kseg.etl.ledger.lease import Lease
from kseg.etl.tables.delta.cleanup import tables_inside
from kseg.etl.tables.delta.maintenance import HOUR, DeltaFiles
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.errors import vacuum_of_nested
from kseg.etl.tables.removal import OfRun, quoted
from kseg.etl.tables.spark.correcting import delete_old_scratch
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.values import FileCount

BEGINS_WITHIN = timedelta(minutes=5)
"""From when the statement's retention is computed to when Spark looks at the clock."""


class SparkMaintenance(DeltaFiles):
    """By Spark's own Delta, which knows all table features; clustered tables are clustered by OPTIMIZE."""

    by = "spark"

    def __init__(self, access: DeltaAccess, target: SparkTarget, *, because: str = "") -> None:
        super().__init__(access)
        self._target, self.because = target, because

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        with self._target.exclusively(lease, wait=wait):
            yield

    def check_store(self) -> None:
        self._target.check_store()

    def optimize(self, z_order: Sequence[str], *, dry_run: bool, details: Mapping[str, Any]) -> int | None:
        self.check_columns(z_order)
        if dry_run:
            return None
        self._target.check_lease()
        order = f" ZORDER BY ({', '.join(quoted(name) for name in z_order)})" if z_order else ""
        metrics = self._target.sql(f"OPTIMIZE {{table}}{order}")[0]["metrics"]
        return int(metrics["numFilesRemoved"])

    def vacuum(self, retention: timedelta, before: datetime, *, dry_run: bool) -> FileCount:
        """Implements `Maintenance.vacuum`. Spark's VACUUM takes each file below the folder that the table does not
        name.

        Raises:
            ConfigurationError: another table lies inside the folder.
        """
        store = self._access.location.open()
        root = store.root
        with store.asked("cannot list the table's files"):
            inside = tables_inside(store.fs, root)
        if inside:
            raise vacuum_of_nested(self._access.name, inside)
        # Spark counts from when it begins.
        hours = max(retention, datetime.now(UTC) - before + BEGINS_WITHIN) / HOUR
        stored = self.stored()
        with self._target.set_up_for_vacuum():
            if dry_run:
                paths = [str(row["path"]).removeprefix("file:") for row in self._vacuum(hours, " DRY RUN")]
                relative = [path[len(root) :].lstrip("/") for path in paths if path.startswith(root)]
                return FileCount(len(paths), self.sizes(relative))
            self._target.check_lease()
            self._vacuum(hours, "")
        delete_old_scratch(store)  # which VACUUM does not look into
        after = self.stored()
        if stored is None or after is None:
            return FileCount()
        return FileCount(max(0, stored.files - after.files), max(0, stored.bytes - after.bytes))

    def delete_runs(self, runs: Sequence[str], *, details: Mapping[str, Any]) -> int:
        self._target.check_lease()
        wanted = " OR ".join(f"({OfRun(run_id).sql()})" for run_id in runs)
        rows = self._target.sql(f"DELETE FROM {{table}} WHERE {wanted}")
        return int(rows[0]["num_affected_rows"]) if rows else 0

    def _vacuum(self, hours: float, mode: str) -> list[Any]:
        return self._target.sql(f"VACUUM {{table}} RETAIN {hours:.6f} HOURS{mode}")
