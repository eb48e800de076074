"""Table objects of a ledger that are used again: a refresh takes three requests, where to load one takes six and more.

Whoever loads a table reads its log since the last checkpoint, each commit several times, and again for an app
transaction. A run looks at its ledger a dozen times, and finds little but what it wrote itself. A refresh lists what is
new, and reads the `commitInfo` of the new commits and of the one that the object stands on.

That commit has to be the same as before: by itself a refreshed object would not notice that the folder was deleted and
made anew or put back from a copy, and would go on counting where the old log ended. So each commit of a ledger has a
name (`kseg.commit`), and an object is loaded again where one that it has to know is missing, has another name, or has
none (another writer's, or of release 0.1.0). What is below that commit is not looked at again: whoever deletes older
commits or checkpoints by hand is noticed by the next process. And delta-rs resolves symbolic links when it loads: an
object is of the folder that the ledger's path led to then, and is not used again where it leads to another one.

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
"""Commits that a refresh reads; where others have made more, loading is cheaper."""

MOST_IN_ALL: Final = 15
"""Commits after which an object is loaded again. delta-rs does not go on to a newer checkpoint: an object has all
commits since the one that it was loaded from, and with each of them refreshes and commits take longer. On a local disk
a transition and a look took 9 to 10 ms with 10 to 20, 15 ms when each loaded, and 30 ms and more with 200."""

KEPT: Final = 4
"""Objects that wait to be used again, of threads that look at the same time."""


@dataclass
class TableObject:
    """A table object, and what is known of the commits that it stands on.

    names: of its version's commit, and after a commit of its own also of the one below it: whoever put another log in
    its place meanwhile has not changed the newest one's. Empty where the commit has no name. loaded: the version that
    was loaded. place: its folder, without symbolic links. sequences: the last transition of each job that was asked
    for. reused: it has been given back before.
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
        """After a commit with this object, which stood on version `on`: whether it may be used again. delta-rs steps
        over commits of other jobs, which this object has then not seen."""
        version = self.table.version()
        if version != on + 1 or on not in self.names:
            return False
        self.names = {on: self.names[on], version: name}
        self.sequences[job] = sequence
        return True

    def refresh(self, provenance: Provenance) -> bool:
        """Whether the object stands on the newest version now; else it has to be loaded.

        Raises DeltaError, OSError, ValueError: the log cannot be read, or is older than the object.
        """
        stood = self.table.version()
        if stood not in self.names or stood - self.loaded > MOST_IN_ALL or provenance.place != self.place:
            return False
        self.table.update_incremental()
        now = self.table.version()
        if now - stood > MOST_NEW:
            return False
        # After the refresh: whatever it read had these commits below it.
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
        """Where the ledger is now, without symbolic links."""
        return place_of(self._location)

    def of(self, version: int) -> Mapping[str, Any]:
        """Empty where there is no such commit, or it cannot be read."""
        try:
            content = self._files.read(f"_delta_log/{version:020d}.json")
            infos = [json.loads(line)["commitInfo"] for line in content.splitlines() if line.startswith(_COMMIT_INFO)]
        except (OSError, ValueError):
            return {}
        return infos[0] if infos and isinstance(infos[0], dict) else {}


class TableObjects:
    """Those of one ledger. Nobody else has an object that was taken, until it is given back.

    load: gives a table object of the newest version, or raises.
    """

    def __init__(self, load: Callable[[], DeltaTable], provenance: Provenance) -> None:
        self._load = load
        self._provenance = provenance
        self._waiting: list[TableObject] = []
        self._lock = threading.Lock()

    def take(self) -> TableObject:
        """One that stands on the newest version. Raises what `load` raises."""
        with self._lock:
            known = self._waiting.pop() if self._waiting else None
        if known is not None:
            try:
                if known.refresh(self._provenance):
                    return known
            except (DeltaError, OSError, ValueError):
                pass  # whatever it is, loading meets it too, and has the better message
        return self.load()

    def load(self) -> TableObject:
        """One that was loaded now. Raises what `load` raises."""
        place = self._provenance.place  # first: a link that is turned meanwhile then leads to another place
        return self.loaded(self._load(), place)

    def loaded(self, table: DeltaTable, place: str | None = None) -> TableObject:
        """Of a table object that was just loaded. place: None: as the ledger's path leads there now."""
        version = table.version()
        name = self._provenance.of(version).get(NAME)
        names = {} if name is None else {version: str(name)}
        return TableObject(table, names, version, place or self._provenance.place)

    def give(self, used: TableObject) -> None:
        """It may be used again: it is at the version where it was taken, or its own commit was the next one."""
        used.reused = True
        with self._lock:
            if len(self._waiting) < KEPT:
                self._waiting.append(used)
