"""A table's log as a whole: its newest snapshot, an older one, some of its commits.

Requests (g: commits since the newest checkpoint, read side by side; c: for the checkpoint, 1 if it has at most a
megabyte, else 2 or more):

    newest(), at(version)   1 list + 1 for the hint + c + g
    commits(first, last)    1 for each commit
    back(newest, oldest)    1 for each commit, at most twice as many as are asked for

Where the newest checkpoint is damaged, the one before it and the commits after that are read instead, or all commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kseg.etl.delta_log.checkpoint import CheckpointReader
from kseg.etl.delta_log.entries import LogEntry, parse, read_entries
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.features import check_readable
from kseg.etl.delta_log.folder import AT_ONCE, LogFolder
from kseg.etl.delta_log.listing import HINT, Checkpoint, LogSegment, entry_name, hinted, segment
from kseg.etl.delta_log.replay import LiveFiles, LogSnapshot, snapshot

TRIES: Final = 3
"""How often a log is read again that was cleaned meanwhile, or whose listing was no moment's picture."""


class DeltaLog:
    """The log of one table. Thread-safe; it keeps nothing: a caller keeps snapshots.

    Every method may raise, besides what `LogFolder` raises:
        DamagedLog: a file of the log is missing or cannot be read, and no others take its place.
        UnsupportedTable: the table has reader features that are not known here.
        LogChanged: the log was cleaned several times while it was read.
    """

    def __init__(self, folder: LogFolder) -> None:
        self.folder = folder

    def newest(self) -> LogSnapshot | None:
        """The newest version; None if there is no table."""
        return self._read(None)

    def at(self, version: int) -> LogSnapshot | None:
        """A version; None if the log does not have it, or no longer."""
        found = self._read(version)
        return found if found is not None and found.version == version else None

    def commits(self, first: int, last: int) -> list[LogEntry] | None:
        """The commits of these versions, the oldest first; None if the log does not have all of them, or no longer."""
        try:
            return read_entries(self.folder, [(version, entry_name(version)) for version in range(first, last + 1)])
        except LogChanged:
            return None

    def back(self, newest: int, oldest: int = 0) -> Iterator[LogEntry]:
        """Commits from the newest to the oldest, ending early where the log has been cleaned, or has no such version.

        They are read in growing groups, side by side, since most who look back find what they look for soon.
        """
        last, number = newest, 1
        while last >= oldest:
            first = max(oldest, last - number + 1)
            contents = self._contents([entry_name(version) for version in range(last, first - 1, -1)])
            for version, content in zip(range(last, first - 1, -1), contents, strict=False):
                name = entry_name(version)
                yield LogEntry(version, parse(content, table=self.folder.table, version=version, file=name))
            if len(contents) <= last - first:
                return
            last, number = first - 1, min(AT_ONCE, 2 * number)

    def _contents(self, names: Sequence[str]) -> list[bytes]:
        """The contents of files, up to the first that is missing."""
        try:
            return self.folder.read_all(names)
        except FileNotFoundError:
            if len(names) == 1:
                return []
        found: list[bytes] = []
        for name in names:
            try:
                found.append(self.folder.read(name))
            except FileNotFoundError:
                break
        return found

    def _read(self, until: int | None) -> LogSnapshot | None:
        """The newest version up to this one."""
        for tries_left in reversed(range(TRIES)):
            try:
                return self._read_once(until)
            except (LogChanged, DamagedLog):
                # A folder that is listed while others commit may lack a file that was there before and after it.
                if not tries_left:
                    raise
        raise AssertionError

    def _read_once(self, until: int | None, damaged: tuple[Checkpoint, ...] = ()) -> LogSnapshot | None:
        """damaged: checkpoints that cannot be read."""
        made_of = self._segment(until, damaged)
        if made_of is None:
            return None
        try:
            return self._replayed(made_of, damaged)
        except DamagedLog as error:
            own = () if made_of.checkpoint is None else made_of.checkpoint.files
            if error.file not in {file.name for file in own}:
                raise
            if (found := self._otherwise(made_of, damaged)) is None:
                raise
            return found

    def _otherwise(self, made_of: LogSegment, damaged: tuple[Checkpoint, ...]) -> LogSnapshot | None:
        """The same version without its checkpoint, which is damaged; None: the log has nothing in its place."""
        assert made_of.checkpoint is not None
        try:
            found = self._read_once(made_of.version, (*damaged, made_of.checkpoint))
        except DamagedLog:
            return None
        return found if found is not None and found.version == made_of.version else None

    def _segment(self, until: int | None, damaged: Collection[Checkpoint]) -> LogSegment | None:
        first = None if damaged else self._hint()
        if first is not None and (until is None or first <= until):
            files = self.folder.list_from(first)
            try:
                found = segment(files, table=self.folder.table, until=until)
            except DamagedLog:
                found = None  # the hint leads to a checkpoint that is not there
            if found is not None and found.checkpoint is not None:
                return found
        return segment(self.folder.list_from(), table=self.folder.table, until=until, without=damaged)

    def _hint(self) -> int | None:
        try:
            return hinted(self.folder.read(HINT))
        except FileNotFoundError:
            return None

    def _replayed(self, made_of: LogSegment, damaged: tuple[Checkpoint, ...]) -> LogSnapshot:
        table = self.folder.table
        checkpoint = None if made_of.checkpoint is None else CheckpointReader(self.folder, made_of.checkpoint)
        tail = read_entries(self.folder, [(one.last, one.file.name) for one in made_of.commits])
        files = LiveFiles(checkpoint, tuple(tail), lambda: self._files_otherwise(made_of, damaged))
        found = snapshot(table, made_of.version, files)
        check_readable(found.protocol, table=table, version=found.version)
        return found

    def _files_otherwise(self, made_of: LogSegment, damaged: tuple[Checkpoint, ...]) -> LiveFiles | None:
        found = self._otherwise(made_of, damaged)
        return None if found is None else found.files
