"""The folder `_delta_log` as a store gives it: files by name, listed from a name on.

The store's own part is an implementation of `LogFolder` (`etl.ledger.log_files` with obstore,
`etl.tables.delta.arrow_log` with Arrow's file systems). Requests are counted here, by kind, so that a test or a report
can say what an operation costs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

AT_ONCE: Final = 16
"""Requests of one reader at the same time: a round trip takes longer than what it brings."""

PAGE: Final = 1_000
"""Names that a store gives with one request of a listing (S3, GCS; Azure gives 5,000)."""


class LogFile(NamedTuple):
    """A file of the log. size: bytes."""

    name: str
    size: int


class LogFolder(ABC):
    """`_delta_log` of one table. Thread-safe. table: its name in messages.

    requests: how many of each kind were sent: `list` (pages), `get`.

    Every method may raise RetriableFailure (the store does not respond) and ConfigurationError (it rejects settings or
    credentials).
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.requests: Counter[str] = Counter()
        self._lock = threading.Lock()

    def list_from(self, first: str = "") -> list[LogFile]:
        """The files in the folder itself whose names are not before `first`, in the order of names; none if there is no
        folder."""
        found = sorted(file for file in self._list(first) if file.name >= first and "/" not in file.name)
        self._count("list", max(1, -(-len(found) // PAGE)))
        return found

    def read(self, name: str, first: int = 0, length: int | None = None) -> bytes:
        """A file's bytes. name: may have a folder (`_sidecars/…`). length: None: to the end.

        Raises:
            FileNotFoundError: there is no such file.
        """
        self._count("get")
        return self._read(name, first, length)

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """Several files, side by side. Raises as `read`, once all requests that have begun have ended."""
        if len(names) < 2:
            return [self.read(name) for name in names]
        with ThreadPoolExecutor(min(AT_ONCE, len(names)), thread_name_prefix="kseg-log") as pool:
            return list(pool.map(self.read, names))

    def _count(self, kind: str, number: int = 1) -> None:
        with self._lock:
            self.requests[kind] += number

    @abstractmethod
    def _list(self, first: str) -> list[LogFile]:
        """At least the files of `list_from`, in any order."""

    @abstractmethod
    def _read(self, name: str, first: int, length: int | None) -> bytes: ...
