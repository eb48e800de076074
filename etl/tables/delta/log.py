"""A Delta log, commit by commit: which run landed what, and which changes others made to a table.

    _delta_log/00000000000000000042.json     one action a line: commitInfo, add, remove, metaData, protocol, txn …

(Delta protocol, "Delta Log Entries" and "Actions".) The files are read with `etl.delta_log`: delta-rs' `history` lacks
app transactions, table ids or added files. Old entries are removed once a checkpoint holds their outcome; what cannot
be read any more is reported as such, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from kseg.etl.delta_log.actions import (
    AddFile,
    AppTransaction,
    CommitInfo,
    DomainMetadata,
    RemoveFile,
    TableMetadata,
    TableProtocol,
)
from kseg.etl.ledger.values import APP_ROOT, DELTA_SNAPSHOT, TableState
from kseg.etl.tables.values import CommitRecord, Incident

if TYPE_CHECKING:
    from kseg.etl.delta_log.entries import LogEntry
    from kseg.etl.delta_log.table_log import DeltaLog

APP_PREFIX = f"{APP_ROOT}/"

# What puts other rows in the place of the ones that were there. Names as Delta on Spark and delta-rs write them.
FENCE: Final = "fence"
"""Key in a commit's details: another process has taken over from those that prepared a commit before."""

FENCE_PROPERTY: Final = "kseg.fence"
"""A table property that a fence by Spark sets."""

_RESTORES = frozenset({"RESTORE"})
_REPLACES = frozenset(
    {
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CLONE",
        "CONVERT",
    }
)
_TRUNCATES = frozenset({"TRUNCATE"})
_OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class AddedFile:
    """path: relative to the table (or absolute), decoded. size: bytes. rows: None where statistics are missing."""

    path: str
    size: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One version. info: its commitInfo. transactions: app id -> version. table_id: where it set metadata.

    domains: domain -> the configuration that it set; None: removed. protocol: whether it set the table's protocol.
    """

    version: int
    info: Mapping[str, Any] = field(default_factory=dict)
    added: tuple[AddedFile, ...] = ()
    removed: int = 0
    transactions: Mapping[str, int] = field(default_factory=dict)
    table_id: str | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)
    protocol: bool = False

    @property
    def operation(self) -> str:
        return str(self.info.get("operation", "")).upper()

    @property
    def mode(self) -> str:
        parameters = self.info.get("operationParameters") or {}
        return str(parameters.get("mode", "")).lower()

    @property
    def ours(self) -> bool:
        """Made by a run of this framework, whichever job's."""
        return any(app.startswith(APP_PREFIX) for app in self.transactions)

    @property
    def details(self) -> Mapping[str, Any]:
        """What a run of ours wrote beside its commit: run, attempt, rows, removed … Empty for others' commits."""
        if isinstance(details := self.info.get("kseg"), Mapping):
            return details
        try:
            details = json.loads(self.info.get("userMetadata") or "{}")
        except ValueError:
            return {}
        return details if isinstance(details, Mapping) and "kseg" in details else {}

    @property
    def record(self) -> CommitRecord:
        """The commit as callers of the table protocol see it."""
        added = {file.path: file.rows for file in self.added}
        return CommitRecord(self.version, self.transactions, self.details, added)

    @property
    def run(self) -> str | None:
        """The run of ours that made the commit."""
        run = self.details.get("run", self.details.get("kseg"))
        return run if isinstance(run, str) else None

    @property
    def fence(self) -> bool:
        """Made by `Target.fence`."""
        return bool(self.details.get(FENCE))

    @property
    def size(self) -> int:
        """Bytes of all files added."""
        return sum(file.size for file in self.added)

    @property
    def rows(self) -> int | None:
        """Rows added, by the files' statistics."""
        rows = [file.rows for file in self.added]
        return None if None in rows else sum(r for r in rows if r is not None)


def entry_path(version: int) -> str:
    """Relative path of a commit's entry."""
    return f"_delta_log/{version:020d}.json"


def read_commit(log: DeltaLog, version: int) -> Commit | None:
    """A commit; None where its entry has been removed, or does not exist yet. Raises what `DeltaLog` raises."""
    return next(commits_back(log, version, version), None)


def commit_of(entry: LogEntry) -> Commit:
    """A commit from the actions of its log entry; those of other kinds are passed over."""
    info: Mapping[str, Any] = {}
    added: list[AddedFile] = []
    removed = 0
    transactions: dict[str, int] = {}
    table_id = None
    domains: dict[str, str | None] = {}
    protocol = False
    for action in entry.actions:
        match action:
            case CommitInfo():
                info = action.content
            case AddFile():
                added.append(AddedFile(unquote(action.path), action.size, action.stored_rows))
            case RemoveFile():
                removed += 1
            case AppTransaction():
                transactions[action.app_id] = action.version
            case TableMetadata():
                table_id = action.id
            case DomainMetadata():
                domains[action.domain] = None if action.removed else action.configuration
            case TableProtocol():
                protocol = True
    return Commit(entry.version, info, tuple(added), removed, transactions, table_id, domains, protocol)


def commits_back(log: DeltaLog, newest: int, oldest: int = 0) -> Iterator[Commit]:
    """Commits from the newest to the oldest, ending early where the log has been cleaned."""
    return map(commit_of, log.back(newest, oldest))


def find_transaction(log: DeltaLog, app_id: str, app_version: int, newest: int, oldest: int = 0) -> Commit | None:
    """The last commit that carries an app transaction; None where the log does not go back so far."""
    for commit in commits_back(log, newest, oldest):
        if commit.transactions.get(app_id) == app_version:
            return commit
    return None


def incident_of(commit: Commit, table_id: str) -> Incident | None:
    """What a commit did that a ledger must know about; None for appends, OPTIMIZE, VACUUM, DELETE, UPDATE, MERGE,
    changes of schema or properties, and whatever a run of ours did."""
    if commit.ours:
        return None
    at = f"version {commit.version}"
    if commit.operation in _RESTORES:
        return Incident("table-restored", f"{at} restored an older state of the table", commit.version)
    if commit.operation in _REPLACES:
        return Incident("table-replaced", f"{at} replaced the table ({commit.operation})", commit.version)
    if commit.table_id is not None and commit.table_id != table_id:
        return Incident("table-replaced", f"{at} gave the table a new id", commit.version)
    if commit.operation in _TRUNCATES:
        return Incident("table-truncated", f"{at} removed all rows (TRUNCATE)", commit.version)
    if commit.mode == _OVERWRITE:
        return Incident("table-overwritten", f"{at} overwrote rows of the table", commit.version)
    return None


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a table since a recorded state. incidents: as of `incidents_since`.

    fenced: a commit since is a fence (`Target.fence`), or the log does not show all of them.
    """

    incidents: tuple[Incident, ...] = ()
    fenced: bool = False


def incidents_since(log: DeltaLog, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
    """See `changes_since`."""
    return changes_since(log, recorded, now).incidents


def changes_since(log: DeltaLog, recorded: TableState, now: TableState | None) -> Changes:
    """Changes to a table since a recorded state that a ledger must not ignore, oldest first.

    Where the log does not reach back to the recorded version any more, only the number of rows can be compared: fewer
    than recorded is an incident, since it is unknown whose rows were removed.
    """
    if now is None:
        return Changes((Incident("table-missing", "the table no longer exists"),))
    if recorded.snapshot.format != DELTA_SNAPSHOT.format:
        message = f"it is a Delta table, and was recorded with snapshots of the format {recorded.snapshot.format}"
        return Changes((Incident("table-recreated", message),))
    found: list[Incident] = []
    complete, fenced, oldest = True, False, now.version + 1
    for commit in commits_back(log, now.version, recorded.version + 1):
        oldest, fenced = commit.version, fenced or commit.fence
        complete = oldest == recorded.version + 1
        if (incident := incident_of(commit, recorded.id)) is not None:
            found.append(incident)
    found.reverse()
    if now.version < recorded.version:
        message = f"the table is at version {now.version}, it was at {recorded.version}"
        found.insert(0, Incident("table-went-back", message))
    elif now.id != recorded.id and not found:
        found.append(Incident("table-recreated", f"the table's id is {now.id}, it was {recorded.id}"))
    if not complete and not found and recorded.rows is not None and now.rows is not None and now.rows < recorded.rows:
        message = f"the log was cleaned since version {recorded.version}, and {recorded.rows - now.rows} rows are gone"
        found.append(Incident("table-lost-rows", message))
    return Changes(tuple(found), fenced or oldest > recorded.version + 1)
