"""Snapshots that are used again while their table's log does not move: to see that takes fewer requests than to load
one, and on a local disk a hundredth of the time.

A run looks at each of its tables some five times and then commits to it, and mostly nothing happens in between. The
snapshot of a version is the newest one as long as the log has no later version and the entry of this one is byte by
byte what it was; in a folder that was deleted and made anew, or put back from a copy, it is another one. (Delta
protocol, "Delta Log Entries".) delta-rs resolves symbolic links when it loads a table, so a snapshot belongs to the
folder that the path led to then.

What is below the newest entry is not looked at. So whoever is told by delta-rs that a part of the log is gone, or has
lost a race, forgets the snapshot and asks again.

A commit on such a snapshot is as safe as on one that is loaded for it: a compare-and-swap on its version, moments after
it was found to be the newest.
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
"""Data files of all snapshots that are kept; what is above is loaded each time. A snapshot holds 5 kB of each, where
they have statistics of 40 columns."""


class Snapshot(DeltaTable):
    """A table at one version that asks delta-rs each question once. For each answer on an app's last transaction
    delta-rs reads log entries, and to count rows it makes an Arrow row of each file, under Python's lock. Answers are
    kept by version, which moves on where the table is altered through this object."""

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
        """As the ledger records it. Rows are None where a file has no statistics, or vectors cannot be read."""
        version = self.version()
        if version not in self._rows:
            rows = self._in_files()[1]
            deleted = deletion_vectors.deleted_rows(self) if rows else 0
            self._rows[version] = None if rows is None or deleted is None else rows - deleted
        return TableState(str(self.metadata().id), version, self._rows[version])

    def files(self) -> int:
        """How many data files it has."""
        return self._in_files()[0]

    def _in_files(self) -> tuple[int, int | None]:
        """Number of files, and of the rows in them, with those that deletion vectors (files of their own) delete."""
        version = self.version()
        if version not in self._counts:
            counts = self.get_add_actions().column("num_records")
            self._counts[version] = len(counts), None if counts.null_count else sum(counts.to_pylist())
        return self._counts[version]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A snapshot. log: of its table. entry: digest of its version's log entry. files: how many it has."""

    table: Snapshot
    log: StoredFiles
    entry: bytes
    files: int


class Snapshots:
    """Of the tables of one run, by their place. Any number of threads may ask."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._files = 0
        self._lock = threading.Lock()

    def newest(self, location: TableLocation, load: Callable[[], Snapshot | None]) -> Snapshot | None:
        """The newest snapshot of the table at this location; None where there is none.

        load: loads it. Raises what `load` raises.
        """
        place = location.place  # before it is loaded: a link that is turned meanwhile then leads to another place
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
        """The table that `make` makes at this location. Raises what `make` raises."""
        place = location.place
        table = make()
        self._forget(place)
        self._keep(place, table, location)
        return table

    def forget(self, location: TableLocation) -> None:
        """The next one who asks for this table's snapshot has it loaded."""
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
    # In this order: it was the newest one when the first of them was asked for, and a log is cleaned from its oldest
    # entries on: where the next one has come and gone, this one is gone as well.
    return not _is_there(kept.log, version + 1) and _entry(kept.log, version) == kept.entry


def _entry(log: StoredFiles, version: int, *, of_table: str | None = None) -> bytes | None:
    """Digest of a version's log entry; None where it cannot be read: whoever loads the table has the better message.

    of_table: None also where it is the first entry of a table with another id, which took this one's place meanwhile.
    """
    try:
        entry = log.read(entry_path(version))
    except (OSError, ValueError):
        return None
    if of_table is not None and version == 0 and of_table.encode() not in entry:
        return None
    return hashlib.blake2b(entry).digest()


def _is_there(log: StoredFiles, version: int) -> bool:
    """Whether a version has a log entry, or that cannot be said."""
    try:
        log.read(entry_path(version))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return True
