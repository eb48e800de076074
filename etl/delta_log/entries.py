"""The log's JSON files: a commit, a log compaction file, a V2 checkpoint. One action a line.

Commits are read side by side. What was removed between listing and reading is reported as such: cleaning a log deletes
its oldest entries, and the newest version can then be read from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kseg.etl.delta_log.actions import Action, MalformedAction, parse_line
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.folder import LogFolder


class LogEntry(NamedTuple):
    """The actions of one commit, or of several versions up to this one in one file; in the file's order."""

    version: int
    actions: tuple[Action, ...]


def parse(content: bytes, *, table: str, version: int, file: str) -> tuple[Action, ...]:
    """The actions of a JSON file of the log.

    Raises:
        DamagedLog: a line is not as the protocol says.
    """
    found: list[Action] = []
    # Not `splitlines`: a value in the statistics may contain other line separators, which JSON need not escape.
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                found += parse_line(line)
            except MalformedAction as error:
                raise DamagedLog(
                    f"an action of the table's log cannot be read: {error}",
                    table=table,
                    version=version,
                    file=file,
                    line=number,
                ) from error
    return tuple(found)


def read_entries(folder: LogFolder, files: Sequence[tuple[int, str]]) -> list[LogEntry]:
    """Commits, side by side, in their order. files: version and name.

    Raises:
        DamagedLog: as `parse`.
        LogChanged: one of them is not there.
    """
    try:
        contents = folder.read_all([name for _, name in files])
    except FileNotFoundError as error:
        raise LogChanged("a commit was deleted while the table's log was read", table=folder.table) from error
    return [
        LogEntry(version, parse(content, table=folder.table, version=version, file=name))
        for (version, name), content in zip(files, contents, strict=True)
    ]
