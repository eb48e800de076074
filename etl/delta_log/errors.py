"""Errors of a Delta log, with their address: table, version, file of the log, line.

DamagedLog           a file of the log is missing, or is not what the protocol says; no retry helps
UnsupportedTable     the table has features that reading would have to know
LogChanged           the log was cleaned while it was read: what has taken the place of its old files is there
"""

from __future__ import annotations

from collections.abc import Iterable

from kseg.etl.errors import KsegError, RetriableFailure, listed


class DamagedLog(KsegError):
    """A file of a table's log is missing, or cannot be read as the Delta protocol says.

    file: its name in `_delta_log`. line: of a JSON file, from 1 on. version: that the file belongs to.
    """

    def __init__(
        self, message: str, *, table: str, version: int | None = None, file: str | None = None, line: int | None = None
    ) -> None:
        remedy = "put the file back from a copy of the table's log"
        super().__init__(message, remedy=remedy, table=table, version=version, file=file, line=line)
        self.version = version
        self.file = file
        self.line = line


class UnsupportedTable(KsegError):
    """A table whose log cannot be read by this package. reasons: names of features, a version."""

    def __init__(self, reasons: Iterable[str], *, table: str, version: int) -> None:
        self.reasons = tuple(reasons)
        super().__init__(
            f"the table needs what is not supported here to read it: {listed(self.reasons)}",
            remedy="read this table with Spark",
            table=table,
            version=version,
        )


class LogChanged(RetriableFailure):
    """Files of the log were deleted while they were read, as cleaning a log does; a newer checkpoint replaces them."""
