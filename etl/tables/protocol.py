"""The table protocol: all that runs, operations, planning and verification may ask of a target table.

    TableAccess   read-only: state, app transactions, history, incidents, rows; and removal of files no commit names
    FileTarget    makes the table fit a schema, and commits data files that a run's tasks have written
    FrameTarget   the same for tables that need Spark's own writer: it writes and commits a DataFrame
    Maintenance   OPTIMIZE and VACUUM

    ensure -> tasks write Parquet files (ReadyTable.write) -> commit: files + app transaction + details, or nothing

A commit is idempotent by its app transaction, (app id, version): it is made once, and found by every later attempt. It
is a compare-and-swap on the snapshot that was checked, so no change of another writer between check and commit passes
unseen. A snapshot is what `TableState` names; only the implementation that made a state interprets it.

Implementations: `etl.tables.delta` (delta-rs, FileTarget) and `etl.tables.spark` (Spark, FrameTarget); only
`etl.tables.targets` chooses between them. docs/explanation/decisions/table-protocol.md holds the protocol against
Iceberg and tables of a catalog.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.tables.values import (
    CommitRecord,
    FileCount,
    FoundCommit,
    Incident,
    NewCommit,
    ReadyTable,
    RunCommit,
    TableDescription,
)

NO_VALUES: Final[Mapping[str, str | int]] = MappingProxyType({})

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kseg.etl.ledger.lease import Lease
    from kseg.etl.tables.parquet.align import TableColumns
    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.parquet.storage import TableLocation
    from kseg.etl.tables.parquet.task_output import WrittenFile
    from kseg.etl.tables.parquet.widening import Widening
    from kseg.etl.tables.removal import Removal


class TableAccess(ABC):
    """A table, independent of its writer, without Spark. There may be none yet at its location.

    name: as messages call it. location: where its data files are.

    Every method may raise ConfigurationError (the store rejects settings or credentials) and RetriableFailure (the
    store does not answer).
    """

    name: str
    location: TableLocation

    @abstractmethod
    def describe(self, app_ids: Collection[str] = ()) -> TableDescription:
        """State and last transactions of these apps, from one snapshot."""

    def state(self) -> TableState | None:
        """The newest snapshot's state; None where there is no table."""
        return self.describe().state

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an app's last transaction; None where it has none, or there is no table."""
        return self.describe([app_id]).transactions.get(app_id)

    @abstractmethod
    def transactions(self, app: str, now: TableState, after: TableState | None = None) -> Mapping[str, int]:
        """The last transactions of an app and of those below it (`app/…`), by app id, as of a state just described.

        after: only of later commits, where the history distinguishes them; None: of all commits.
        """

    @abstractmethod
    def incidents_since(self, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
        """Changes between two states that a ledger must not ignore: RESTORE, REPLACE, overwrite, removal of all rows.

        now: as `describe` has just returned it; None: the table is gone.
        """

    @abstractmethod
    def history(self, after: TableState | None = None) -> Iterator[CommitRecord]:
        """Commits from the newest back to the one after a state, ending early where the history has been cleaned.

        after: None: back to the first.
        """

    @abstractmethod
    def recorded_commit(self, commit: TableCommit) -> CommitRecord | None:
        """What the table's history has where the ledger records a commit; None where it does not go back so far."""

    @abstractmethod
    def read(self, columns: Sequence[str], equal: Mapping[str, str | int], where: str | None = None) -> pa.Table | None:
        """Rows whose columns equal these values, of the newest snapshot; None where there is no table.

        where: a condition in SQL that they meet as well. Raises ConfigurationError where it is none.
        """

    @abstractmethod
    def missing_files(self, commit: TableCommit | None = None) -> tuple[str, ...]:
        """Data files that the newest snapshot names and that are not there; such a table cannot be read.

        commit: only files that this commit added.
        """

    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """Names and types of the newest snapshot's columns; None where there is no table."""

    @abstractmethod
    def column_names(self) -> Sequence[str]:
        """The columns of the newest snapshot; none where there is no table."""

    @abstractmethod
    def partition_columns(self) -> Sequence[str]:
        """Those that the newest snapshot is partitioned by; none where there is no table."""

    @abstractmethod
    def scan(
        self, columns: Sequence[str], equal: Mapping[str, str | int] = NO_VALUES, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """What `read` gives, batch by batch; nothing where there is no table."""

    @abstractmethod
    def clean_up(
        self, run_id: str, commits: Collection[TableCommit] | None = None, *, after: TableState | None = None
    ) -> FileCount:
        """Delete the run's data files that no commit names: of failed tasks, of attempts that did not land.

        Only after a commit with the run's app transaction is durable: before, a suspended attempt may commit its files.

        commits: all commits of this run (its landing, its removal); None: the history is searched. Where one of them
            cannot be read any more, nothing is deleted.
        after: the table as it was before the run; the history is searched back to there.

        Raises:
            RetriableFailure, ConfigurationError: the table's folder cannot be listed. Files that cannot be deleted are
                skipped.
        """


class Target(ABC):
    """A table that a run commits to. name: as messages call it."""

    name: str

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        """Around all that changes the table: keeps other runs out, where the store does not keep two writers apart.

        lease: of the chain that is at work. wait: how long to wait for another run that has the table.

        Raises:
            AnotherRunActive: another run has the table.
        """
        yield

    @abstractmethod
    def remove_run(self, run: RunCommit) -> TableCommit:
        """Remove the rows that a run landed, and take its app transaction, so that no attempt of it can land later.

        Idempotent. Where later runs of the chain have landed, the app transaction is above this one and stays.

        Raises:
            Refused: there is no table, it is append-only, or another writer has to do it.
            RetriableFailure: other writers kept committing first.
        """


class FileTarget(Target):
    """A table whose data files a run's tasks write, and which the driver commits."""

    @abstractmethod
    def ensure(
        self,
        sink: SinkSchema,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        run_id: str | None = None,
    ) -> ReadyTable:
        """Create the table, or add the columns that it lacks. Any number of processes may call this at once.

        Raises:
            IncompatibleSchema: the rows do not fit the table.
            ConfigurationError: the table's store is not put-if-absent.
            Refused: the table forgets app transactions.
            TableBusy: other writers kept committing first.
        """

    @abstractmethod
    def found_commit(self, run: RunCommit) -> FoundCommit | None:
        """The commit that an attempt of this run has made; None where there is none, or no table. Nothing is written.

        Raises:
            Refused: the table has a later run of this app (`ledger-older-than-table`), or forgets app transactions.
        """

    @abstractmethod
    def commit(
        self,
        files: Sequence[WrittenFile],
        run: RunCommit,
        *,
        expected: TableState | None = None,
        columns: TableColumns | None = None,
        remove: Removal | None = None,
    ) -> NewCommit | FoundCommit:
        """Commit a run's files; with none, its app transaction alone.

        expected: the table as the plan recorded it; it must be the same, without incidents since. columns: as the files
        were written; the table must still have them. remove: rows that the same commit removes (replace).

        Raises:
            Refused: the table has a later run of this app (`ledger-older-than-table`), is not the planned one, forgets
                app transactions, or needs another writer.
            TableBusy: other writers kept committing first.
        """


class FrameTarget(Target):
    """A table that Spark's own writer writes and commits."""

    @abstractmethod
    def ensure(
        self, rows: DataFrame, sink: SinkSchema, *, partition_by: Sequence[str] = (), cluster_by: Sequence[str] = ()
    ) -> TableState:
        """Create the table where there is none, with the columns that the rows are landed with.

        Raises:
            ConfigurationError: the columns cannot make a table, or the store is not safe for Spark's commits.
            Refused: the table forgets app transactions.
        """

    @abstractmethod
    def widen(self, sink: SinkSchema, *, allowed: bool) -> tuple[Widening, ...]:
        """Make the types of the table's columns wider where the rows' are; returns what was changed. Idempotent.

        Raises:
            IncompatibleSchema: something has to be changed and is not `allowed` to, or a partition column rests on it.
            ConfigurationError: the table does not allow it, or the store is not safe for Spark's commits.
            RetriableFailure: another writer committed first.
        """

    @abstractmethod
    def land(
        self,
        rows: DataFrame,
        sink: SinkSchema,
        run: RunCommit,
        *,
        expected: TableState | None = None,
        merge_schema: bool = False,
        remove: Removal | None = None,
    ) -> NewCommit | FoundCommit:
        """Write the rows and commit them with the run's app transaction. Arguments as in `FileTarget.commit`.

        Raises:
            Refused: as `FileTarget.commit`.
            ConfigurationError: the rows do not fit the table, or the store is not safe for Spark's commits.
            RetriableFailure: another writer committed first.
        """

    @abstractmethod
    def frame(self) -> DataFrame:
        """The table's rows, as Spark reads them."""


class Maintenance(ABC):
    """OPTIMIZE, VACUUM and retention of one table. Every method may raise RetriableFailure and KsegError.

    by: who commits, `delta-rs` or `spark`. because: why it is Spark, for this once, of a table that is not Spark's;
    empty where it is delta-rs, or the table is.
    """

    by: str
    because: str = ""

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        """As `Target.exclusively`."""
        yield

    @abstractmethod
    def check_store(self) -> None:
        """Raises ConfigurationError where the store is not safe for this writer's commits."""

    @abstractmethod
    def version(self) -> int:
        """The newest version."""

    @abstractmethod
    def live(self) -> FileCount:
        """The newest version's data files."""

    @abstractmethod
    def stored(self) -> FileCount | None:
        """All data files in the table's folder; None where it cannot be listed."""

    @abstractmethod
    def optimize(self, z_order: Sequence[str], *, dry_run: bool, details: Mapping[str, Any]) -> int | None:
        """Make few files of many; returns how many were (or would be) rewritten, None where that is unknown.

        z_order: columns whose near values come into the same files. details: kept in the commit.
        """

    @abstractmethod
    def vacuum(self, retention: timedelta, before: datetime, *, dry_run: bool) -> FileCount:
        """Delete files that no version younger than the retention holds, and those of no version that are older.

        before: no file that was written at this time or later is deleted (by the store's clock), whatever its versions.
        """

    @abstractmethod
    def delete_runs(self, runs: Sequence[str], *, details: Mapping[str, Any]) -> int:
        """Delete all rows of these runs, in one commit; returns how many there were."""
