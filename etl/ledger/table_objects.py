"""Reuse of a ledger's table objects: refreshing one takes three requests, loading one takes six or more.

Loading a table reads its log since the last checkpoint, each commit several times, and again for an app transaction. A
run reads its ledger a dozen times, and mostly finds only its own commits. A refresh lists new commits, and reads the
`commitInfo` of the new commits and of the commit of the object's version.

The commit of the object's version must be the same as before. delta-rs does not notice on a refresh that the folder was
deleted and created again, or restored from a copy, and would continue from the version at which the old log ended. So
each commit of a ledger has a name (`kseg.commit`), and an object is loaded again if a commit that it must know is
missing, has another name, or has no name (of another writer, or of release 0.1.0). Earlier commits are not read again:
if older commits or checkpoints are deleted by hand, only the next process notices it. And delta-rs resolves symbolic
links when it loads a table: an object belongs to the folder to which the ledger's path led then, and is not reused if
the path now leads to another folder.

See the Delta protocol, "Commit Provenance Information"; https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kseg.etl.ledger.object_store import StoredFiles, place_of

NAME: Final = "kseg.commit"
JOB: Final = "kseg.job"
SEQUENCE: Final = "kseg.sequence"
_COMMIT_INFO: Final = b'{"commitInfo":'

MOST_NEW: Final = 20
"""A refresh reads at most this many commits; if other processes have made more, loading is cheaper."""

MOST_IN_ALL: Final = 15
"""After this many commits an object is loaded again. delta-rs does not switch to a newer checkpoint: an object has all
commits since the checkpoint that it was loaded from, and each of them makes refreshes and commits slower. On a local
disk a transition and a read took 9 to 10 ms with 10 to 20 commits, 15 ms with a load each, and at least 30 ms with
200."""

KEPT: Final = 4
"""How many objects are kept for reuse: concurrent threads use one each."""


@dataclass
class TableObject:
    """A table object, and what is known of the commits up to its version.

    names: the name of its version's commit; after a commit with this object also that of the commit before it, because
    this shows whether the log was replaced meanwhile. Empty if a commit has no name. loaded: the version that was
    loaded. place: its folder, without symbolic links. sequences: the last transition of each requested job. reused:
    whether it was given back before.
    """

    table: DeltaTable
    names: dict[int, str]
    loaded: int
    place: str
    sequences: dict[str, int] = field(default_factory=dict)
    reused: bool = False

    def sequence(self, job: str, app_id: str) -> int:
        """The number of the job's last transition, 0 for none. app_id: of the ledger's transactions for the job."""
        if job not in self.sequences:
            self.sequences[job] = self.table.transaction_version(app_id) or 0
        return self.sequences[job]

    def committed(self, name: str, job: str, sequence: int, *, on: int) -> bool:
        """After a commit with this object, which was at version `on`: whether it may be used again. delta-rs skips
        commits of other jobs, which this object then does not have."""
        version = self.table.version()
        if version != on + 1 or on not in self.names:
            return False
        self.names = {on: self.names[on], version: name}
        self.sequences[job] = sequence
        return True

    def refresh(self, provenance: Provenance) -> bool:
        """Refresh the object. Returns whether it is at the newest version now; if not, it has to be loaded again.

        Raises DeltaError, OSError, ValueError: the log cannot be read, or is older than the object.
        """
        stood = self.table.version()
        if stood not in self.names or stood - self.loaded > MOST_IN_ALL or provenance.place != self.place:
            return False
        self.table.update_incremental()
        now = self.table.version()
        if now - stood > MOST_NEW:
            return False
        # After the refresh, so that all commits that it read come after these.
        if any(provenance.of(version).get(NAME) != name for version, name in self.names.items()):
            return False
        for version in range(stood + 1, now + 1):
            commit = provenance.of(version)
            if not all(key in commit for key in (NAME, JOB, SEQUENCE)):
                return False
            job, sequence = str(commit[JOB]), int(commit[SEQUENCE])
            if job in self.sequences:
                self.sequences[job] = max(self.sequences[job], sequence)
            self.names[version] = str(commit[NAME])
        self.names = {now: self.names[now]}
        return True


class Provenance:
    """The `commitInfo` of a ledger's commits, read from its log.

    Not by delta-rs' `history`, which stops all threads of the process until the store has answered.
    """

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location = location
        self._files = StoredFiles(location, options)

    @property
    def place(self) -> str:
        """The ledger's location now, without symbolic links."""
        return place_of(self._location)

    def of(self, version: int) -> Mapping[str, Any]:
        """The `commitInfo` of a version; empty if there is no such commit, or if it cannot be read."""
        try:
            content = self._files.read(f"_delta_log/{version:020d}.json")
            infos = [json.loads(line)["commitInfo"] for line in content.splitlines() if line.startswith(_COMMIT_INFO)]
        except (OSError, ValueError):
            return {}
        return infos[0] if infos and isinstance(infos[0], dict) else {}


class TableObjects:
    """The table objects of one ledger. An object that was taken has one user until it is given back.

    load: returns a table object of the newest version, or raises.
    """

    def __init__(self, load: Callable[[], DeltaTable], provenance: Provenance) -> None:
        self._load = load
        self._provenance = provenance
        self._waiting: list[TableObject] = []
        self._lock = threading.Lock()

    def take(self) -> TableObject:
        """A table object at the newest version. Raises what `load` raises."""
        with self._lock:
            known = self._waiting.pop() if self._waiting else None
        if known is not None:
            try:
                if known.refresh(self._provenance):
                    return known
            except (DeltaError, OSError, ValueError):
                pass  # loading fails for the same reason, with a better message
        return self.load()

    def load(self) -> TableObject:
        """A newly loaded table object. Raises what `load` raises."""
        place = self._provenance.place  # first: if a link is changed meanwhile, the places then differ
        return self.loaded(self._load(), place)

    def loaded(self, table: DeltaTable, place: str | None = None) -> TableObject:
        """The entry for a table object that was just loaded. place: None: the folder to which the path leads now."""
        version = table.version()
        name = self._provenance.of(version).get(NAME)
        names = {} if name is None else {version: str(name)}
        return TableObject(table, names, version, place or self._provenance.place)

    def give(self, used: TableObject) -> None:
        """Give an object back, at the version where it was taken, or at the next one if that is its own commit."""
        used.reused = True
        with self._lock:
            if len(self._waiting) < KEPT:
                self._waiting.append(used)
