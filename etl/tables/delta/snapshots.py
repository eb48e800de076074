"""Cached snapshots of Delta tables, which are reused until the table's log changes.

Checking the log takes fewer requests than loading a snapshot, and on a local disk a hundredth of the time. A run needs
the snapshot of each table about five times before it commits, and usually nobody else commits in between.

A cached snapshot is still the newest one if the log has no later version and the log entry of the snapshot's version
has the same bytes as before (Delta protocol, "Delta Log Entries"). In a folder that was deleted and created again, or
restored from a copy, this entry is different. delta-rs resolves symbolic links when it loads a table, so a snapshot
belongs to the folder to which the path led then.

Older log entries are not checked. If delta-rs reports that a part of the log is missing, or that another commit was
first, the caller must call `forget` and request the snapshot again.

A commit on a cached snapshot is as safe as a commit on a new one: it is a compare-and-swap on the snapshot's version,
shortly after this version was found to be the newest.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from deltalake import DeltaTable

from kseg.etl.ledger.object_store import StoredFiles
from kseg.etl.ledger.values import TableState
from kseg.etl.tables.delta import deletion_vectors
from kseg.etl.tables.delta.log import entry_path
from kseg.etl.tables.parquet.storage import TableLocation

MOST_FILES: Final = 20_000
"""Limit of the data files of all cached snapshots together; snapshots beyond it are loaded each time. A snapshot takes
5 kB for each file with statistics of 40 columns."""


class Snapshot(DeltaTable):
    """A table at one version that caches results of delta-rs.

    To find an app's last transaction, delta-rs reads log entries each time; to count rows, it makes an Arrow row for
    each file, while it holds the GIL. Results are cached by version, because the version increases if the table is
    changed through this object.
    """

    def __init__(self, table_uri: str, **options: Any) -> None:
        """options: as of DeltaTable."""
        super().__init__(table_uri, **options)
        self._transactions: dict[tuple[int, str], int | None] = {}
        self._counts: dict[int, tuple[int, int | None]] = {}
        self._rows: dict[int, int | None] = {}

    def transaction_version(self, app_id: str) -> int | None:
        key = self.version(), app_id
        if key not in self._transactions:
            self._transactions[key] = super().transaction_version(app_id)
        return self._transactions[key]

    def state(self) -> TableState:
        """The state that the ledger records. Rows are None if a file lacks statistics or a deletion vector cannot be
        read.
        """
        version = self.version()
        if version not in self._rows:
            rows = self._in_files()[1]
            deleted = deletion_vectors.deleted_rows(self) if rows else 0
            self._rows[version] = None if rows is None or deleted is None else rows - deleted
        return TableState(str(self.metadata().id), version, self._rows[version])

    def files(self) -> int:
        """The number of data files."""
        return self._in_files()[0]

    def _in_files(self) -> tuple[int, int | None]:
        """Numbers of files and of their rows (None: unknown). Rows that deletion vectors delete are included."""
        version = self.version()
        if version not in self._counts:
            counts = self.get_add_actions().column("num_records")
            self._counts[version] = len(counts), None if counts.null_count else sum(counts.to_pylist())
        return self._counts[version]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached snapshot. log: the table's log. entry: digest of its version's log entry. files: number of files."""

    table: Snapshot
    log: StoredFiles
    entry: bytes
    files: int


class Snapshots:
    """Cached snapshots of a run's tables, by location. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._files = 0
        self._lock = threading.Lock()

    def newest(self, location: TableLocation, load: Callable[[], Snapshot | None]) -> Snapshot | None:
        """The newest snapshot of the table at this location; None if there is no table.

        load: loads the newest snapshot. Raises the exceptions of `load`.
        """
        place = location.place  # before loading: if a symbolic link changes meanwhile, its new target is another place
        with self._lock:
            kept = self._kept.get(place)
        if kept is not None and _is_newest(kept):
            return kept.table
        self._forget(place)
        table = load()
        if table is not None:
            self._keep(place, table, location)
        return table

    def made(self, location: TableLocation, make: Callable[[], Snapshot]) -> Snapshot:
        """Create a table at this location with `make`, and cache its snapshot. Raises the exceptions of `make`."""
        place = location.place
        table = make()
        self._forget(place)
        self._keep(place, table, location)
        return table

    def forget(self, location: TableLocation) -> None:
        """Remove this table's snapshot from the cache: the next `newest` loads it."""
        self._forget(location.place)

    def _forget(self, place: str) -> None:
        with self._lock:
            kept = self._kept.pop(place, None)
            self._files -= 0 if kept is None else kept.files

    def _keep(self, place: str, table: Snapshot, location: TableLocation) -> None:
        log = StoredFiles(place, dict(location.options))
        entry = _entry(log, table.version(), of_table=str(table.metadata().id))
        if entry is None:
            return
        files = table.files()
        if self._files + files > MOST_FILES:
            return
        with self._lock:
            if place not in self._kept:
                self._kept[place] = _Kept(table, log, entry, files)
                self._files += files


def _is_newest(kept: _Kept) -> bool:
    version = kept.table.version()
    # The order matters. Entries are deleted oldest first: if the next entry was added and deleted before the first
    # check, this entry is deleted too, and the second check fails.
    return not _is_there(kept.log, version + 1) and _entry(kept.log, version) == kept.entry


def _entry(log: StoredFiles, version: int, *, of_table: str | None = None) -> bytes | None:
    """Digest of a version's log entry; None if it cannot be read (loading the table reports a better error).

    of_table: the table's id. The result is None too if this is the first entry of a table with another id, which has
    replaced this table meanwhile.
    """
    try:
        entry = log.read(entry_path(version))
    except (OSError, ValueError):
        return None
    if of_table is not None and version == 0 and of_table.encode() not in entry:
        return None
    return hashlib.blake2b(entry).digest()


def _is_there(log: StoredFiles, version: int) -> bool:
    """Whether a version has a log entry; true too if this cannot be determined."""
    try:
        log.read(entry_path(version))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return True
