"""A table's log as a whole: its newest snapshot, an older one, some of its commits.

Requests (g: commits since the newest checkpoint, read side by side; c: for the checkpoint, 1 if it has at most a
megabyte, else 2 or more):

    newest(), at(version)   1 list + 1 for the hint + c + g
    commits(first, last)    1 for each commit
"""

from __future__ import annotations

from typing import Final

from kseg.etl.delta_log.checkpoint import CheckpointReader
from kseg.etl.delta_log.entries import Entry, read_entries
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.features import check_readable
from kseg.etl.delta_log.folder import LogFolder
from kseg.etl.delta_log.listing import HINT, Segment, entry_name, first_name, hinted, segment
from kseg.etl.delta_log.replay import Snapshot, snapshot

TRIES: Final = 3
"""How often a log is read again that was cleaned meanwhile, or whose listing was no moment's picture."""


class DeltaLog:
    """The log of one table. Thread-safe; it keeps nothing: a caller keeps snapshots.

    Every method may raise, besides what `LogFolder` raises:
        DamagedLog: a file of the log is missing or cannot be read.
        UnsupportedTable: the table has reader features that are not known here.
        LogChanged: the log was cleaned several times while it was read.
    """

    def __init__(self, folder: LogFolder) -> None:
        self.folder = folder

    def newest(self) -> Snapshot | None:
        """The newest version; None if there is no table."""
        return self._read(None)

    def at(self, version: int) -> Snapshot | None:
        """A version; None if the log does not have it, or no longer."""
        try:
            found = self._read(version)
        except DamagedLog as error:
            # An older version than the oldest checkpoint has lost the commits that it is made of.
            if error.line is not None or ((newest := self._read(None)) is not None and version > newest.version):
                raise
            return None
        return found if found is not None and found.version == version else None

    def commits(self, first: int, last: int) -> list[Entry] | None:
        """The commits of these versions, the oldest first; None if the log does not have all of them, or no longer."""
        try:
            return read_entries(self.folder, [(version, entry_name(version)) for version in range(first, last + 1)])
        except LogChanged:
            return None

    def _read(self, until: int | None) -> Snapshot | None:
        failure: Exception | None = None
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                made_of = self._segment(until)
                return None if made_of is None else self._replayed(made_of)
            except LogChanged as error:
                failure = error
            except DamagedLog as error:
                # A folder that is listed while others commit may lack a file that was there before and after it.
                if last or error.file is None or error.line is not None:
                    raise
                failure = error
        assert failure is not None
        raise failure

    def _segment(self, until: int | None) -> Segment | None:
        first = self._hint()
        if first is not None and (until is None or first <= until):
            files = self.folder.list_from(first_name(first))
            try:
                found = segment(files, table=self.folder.table, until=until)
            except DamagedLog:
                found = None  # the hint leads to a checkpoint that is not there
            if found is not None and found.checkpoint is not None:
                return found
        return segment(self.folder.list_from(), table=self.folder.table, until=until)

    def _hint(self) -> int | None:
        try:
            return hinted(self.folder.read(HINT))
        except FileNotFoundError:
            return None

    def _replayed(self, made_of: Segment) -> Snapshot:
        table = self.folder.table
        checkpoint = None if made_of.checkpoint is None else CheckpointReader(self.folder, made_of.checkpoint)
        tail = read_entries(self.folder, [(one.last, one.file.name) for one in made_of.commits])
        found = snapshot(table, made_of.version, checkpoint, tail)
        check_readable(found.protocol, table=table, version=found.version)
        return found
