"""The folder `_delta_log` as a store gives it: files by name, listed from a version on.

The store's own part is an implementation of `LogFolder` (`etl.ledger.log_files` with obstore,
`etl.tables.delta.arrow_log` with Arrow's file systems).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

AT_ONCE: Final = 16
"""Requests of one reader at the same time: a round trip takes longer than what it brings."""

BEHIND: Final = ":"
"""Behind all names that begin with a version, and before those of folders in the log (`_sidecars/…`), of which one may
have thousands of files."""


def first_name(version: int) -> str:
    """Before all names of a version, and behind those of earlier ones."""
    return f"{version:020d}"


class LogFile(NamedTuple):
    """A file of the log. size: bytes."""

    name: str
    size: int


class LogFolder(ABC):
    """`_delta_log` of one table. Thread-safe. table: its name in messages.

    Every method may raise RetriableFailure (the store does not respond) and ConfigurationError (it rejects settings or
    credentials).
    """

    def __init__(self, table: str) -> None:
        self.table = table

    def list_from(self, version: int = 0) -> list[LogFile]:
        """The files of this version and later ones in the folder itself, in the order of names: those that begin with a
        version. None if there is no folder."""
        first = first_name(version)
        return sorted(file for file in self._list(first) if first <= file.name < BEHIND and "/" not in file.name)

    def read(self, name: str, first: int = 0, length: int | None = None) -> bytes:
        """A file's bytes. name: may have a folder (`_sidecars/…`). length: None: to the end.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return self._read(name, first, length)

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """Several files, side by side. Raises as `read`, once all requests that have begun have ended."""
        if len(names) < 2:
            return [self.read(name) for name in names]
        with ThreadPoolExecutor(min(AT_ONCE, len(names)), thread_name_prefix="kseg-log") as pool:
            return list(pool.map(self.read, names))

    @abstractmethod
    def _list(self, first: str) -> list[LogFile]:
        """At least the files whose names are in [first, BEHIND), in any order."""

    @abstractmethod
    def _read(self, name: str, first: int, length: int | None) -> bytes: ...
