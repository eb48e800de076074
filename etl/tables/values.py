"""The values that a table's callers and its implementations exchange. Frozen; none belongs to one table format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.ledger.values import TableCommit, TableRecord, TableState
from kseg.etl.tables.file_names import FileOwner

if TYPE_CHECKING:
    from kseg.etl.tables.parquet.writer import TableWrite

UNKNOWN_VERSION: Final = -1
"""`TableCommit.version` where the table's history has been cleaned and does not say which version landed the run."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as it is now.

    state: None where there is no table. transactions: the version of each app's last transaction, of the apps that were
    asked for and have any. place: one spelling for each location; "" where it is not known. decoding_rules: the version
    in the table's property (`etl.decoding.rules.PROPERTY`); None where it has no such. column_rules: the same of
    `COLUMNS_PROPERTY`.
    """

    state: TableState | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    place: str = ""
    decoding_rules: int | None = None
    column_rules: int | None = None


@dataclass(frozen=True, slots=True)
class KnownTable:
    """What a ledger knows of a table. state: as it was last seen or left; None: it has never been seen."""

    state: TableState | None = None
    record: TableRecord = field(default_factory=TableRecord)

    def compared_with(self, now: TableState | None) -> TableState | None:
        """The state that the table has to follow; None if it may be anything: it has never been seen, or it was empty
        and nothing has landed in it, so that it may be gone, or another table may be in its place.

        now: the table as it is; None: there is none.
        """
        before = self.state
        if before is None or before.rows != 0 or self.record.landed is not None:
            return before
        return before if now is not None and now.id == before.id else None


@dataclass(frozen=True, slots=True)
class ReadyTable:
    """A table that a run's tasks may write files for. write: what they have to know. state: the table's, once ready."""

    write: TableWrite
    state: TableState


@dataclass(frozen=True, slots=True)
class RunCommit:
    """A run that commits. facts: of the run (job, ledger, mode, ranges), JSON values, kept in the commit for people."""

    run_id: str
    app_id: str
    app_version: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> FileOwner:
        """The owner of the files that the run's tasks write."""
        return FileOwner(self.run_id, self.app_version)

    @property
    def repeats(self) -> bool:
        """Whether later versions of the app are later plans of the same run id, as of a backfill: their rows have it
        too. In the incremental chain they are other runs."""
        return self.app_id.endswith(f"/{self.run_id}")


@dataclass(frozen=True, slots=True)
class NewCommit:
    """This call made the commit."""

    commit: TableCommit


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """Another attempt of the run had made the commit; nothing was done, and no commit names this attempt's files."""

    commit: TableCommit


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit as the table's history has it.

    transactions: app id to version. details: what a run of ours wrote beside its commit (job, ledger, mode, run …);
    empty for commits of others. added: the rows of each data file that it added, by its path; None where the history
    does not say.
    """

    version: int
    transactions: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    added: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Incident:
    """A change after which the ledger's record of a table's rows cannot be trusted.

    code: table-missing, table-recreated, table-went-back, table-restored, table-replaced, table-overwritten,
    table-truncated, table-lost-rows. version: of the commit, None where it is not a commit.
    """

    code: str
    message: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class FileCount:
    """Files and their bytes together."""

    files: int = 0
    bytes: int = 0
