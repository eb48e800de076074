"""The table protocol: the interface through which runs, operations, planning and verification use a target table.

    TableAccess   read-only: state, app transactions, history, incidents, rows; and deletion of uncommitted files
    FileTarget    creates or extends the table, and commits data files that a run's tasks have written
    FrameTarget   the same for tables that need Spark's own writer: writes and commits a DataFrame
    Maintenance   OPTIMIZE and VACUUM

    ensure -> tasks write Parquet files (ReadyTable.write) -> one atomic commit: files + app transaction + details

A commit is idempotent by its app transaction, (app id, version): it is made once, and every later attempt finds it. It
is a compare-and-swap on the snapshot that was checked, so a change by another writer between check and commit is always
detected. A `TableState` identifies a snapshot; only the implementation that made a state interprets it.

Implementations: `etl.tables.delta` (delta-rs, FileTarget) and `etl.tables.spark` (Spark, FrameTarget);
`etl.tables.targets` selects one of them. docs/explanation/decisions/table-protocol.md compares the protocol with
Iceberg and with tables of a catalog.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.tables.file_names import FileOwner
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
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kseg.etl.ledger.lease import Lease
    from kseg.etl.rows.widening import Widening
    from kseg.etl.tables.parquet.align import TableColumns
    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.parquet.storage import TableLocation
    from kseg.etl.tables.parquet.task_output import WrittenFile
    from kseg.etl.tables.removal import Removal


class TableAccess(ABC):
    """A table, independent of its writer, without Spark. The table may not exist yet.

    name: the table's name in messages. location: the folder of its data files.

    Every method may raise ConfigurationError (the store rejects settings or credentials) and RetriableFailure (the
    store does not respond).
    """

    name: str
    location: TableLocation

    @abstractmethod
    def describe(self, app_ids: Collection[str] = ()) -> TableDescription:
        """The table's state, and the last transactions of these apps, from one snapshot."""

    def state(self) -> TableState | None:
        """The newest snapshot's state; None if there is no table."""
        return self.describe().state

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an app's last transaction; None if it has none, or there is no table."""
        return self.describe([app_id]).transactions.get(app_id)

    @abstractmethod
    def transactions(self, app: str, now: TableState, after: TableState | None = None) -> Mapping[str, int]:
        """The last transactions of an app and of the apps below it (`app/…`), by app id.

        now: the state that `describe` has just returned. after: only transactions of later commits, if the history
        distinguishes them; None: transactions of all commits.
        """

    @abstractmethod
    def incidents_since(self, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
        """Changes between two states that a ledger must not ignore: RESTORE, REPLACE, overwrite, removal of all rows.

        now: the state that `describe` has just returned; None: the table no longer exists.
        """

    @abstractmethod
    def history(self, after: TableState | None = None) -> Iterator[CommitRecord]:
        """Commits, the newest first, back to the first commit after a state; fewer if old history was deleted.

        after: None: back to the table's first commit.
        """

    @abstractmethod
    def recorded_commit(self, commit: TableCommit) -> CommitRecord | None:
        """The commit in the table's history at the recorded version; None if that history was deleted."""

    @abstractmethod
    def read(self, columns: Sequence[str], equal: Mapping[str, str | int], where: str | None = None) -> pa.Table | None:
        """Rows of the newest snapshot whose columns equal these values; None if there is no table.

        where: an additional condition in SQL. Raises ConfigurationError if it is invalid.
        """

    @abstractmethod
    def missing_files(self, commit: TableCommit | None = None) -> tuple[str, ...]:
        """Data files of the newest snapshot that do not exist; a table with missing files cannot be read.

        commit: only files that this commit added.
        """

    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """Names and types of the newest snapshot's columns; None if there is no table."""

    @abstractmethod
    def column_names(self) -> Sequence[str]:
        """The columns of the newest snapshot; empty if there is no table."""

    @abstractmethod
    def partition_columns(self) -> Sequence[str]:
        """The partition columns of the newest snapshot; empty if there is no table."""

    @abstractmethod
    def clustering_columns(self) -> Sequence[str]:
        """The columns by which the newest snapshot is clustered, nested ones with dots; empty if there are none."""

    @abstractmethod
    def scan(
        self, columns: Sequence[str], equal: Mapping[str, str | int] = NO_VALUES, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`, batch by batch; empty if there is no table."""

    @abstractmethod
    def clean_up(
        self,
        owner: FileOwner,
        commits: Collection[TableCommit] | None = None,
        *,
        after: TableState | None = None,
        unversioned: bool = False,
    ) -> FileCount:
        """Delete the owner's uncommitted data files: files of failed tasks, and of attempts that did not land.

        Call it only after a commit with the run's app transaction is durable. Before that, a suspended attempt may
        still commit its files. Files of another plan of the same run id stay.

        commits: all commits of this run (its landing, its removal); None: the history is searched. If one of them
            can no longer be read, nothing is deleted.
        after: the table's state before the run; the history is searched back to this state.
        unversioned: delete also the run's files whose names have no app version. They may be another plan's, so the
            caller has just read that its lease is held and that no later plan has this run id.

        Raises:
            RetriableFailure, ConfigurationError: the table's folder cannot be listed. Files that cannot be deleted are
                skipped.
        """


class Target(ABC):
    """A table that a run commits to. name: the table's name in messages."""

    name: str

    @abstractmethod
    def enter(self, table: str, targets: TargetsByWriter) -> None:
        """Enter the target among those with its way of writing. table: its name in the plan."""

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        """Exclude other runs while the table is changed, if the store cannot prevent two writers from overwriting
        each other's commits.

        lease: the lease of the current chain. wait: how long to wait for another run that has the table.

        Raises:
            AnotherRunActive: another run has the table.
        """
        yield

    @abstractmethod
    def rows_of_run(self, run_id: str) -> int:
        """How many rows of the table a run has landed."""

    def found_commit(self, run: RunCommit) -> FoundCommit | None:
        """The commit that an attempt of this run has made; None if there is no commit or no table, or if this is found
        only by the next commit. Writes nothing.

        Raises:
            Refused: the table has a later run of this app (`ledger-older-than-table`), or its properties let app
                transactions expire.
        """
        return None

    @abstractmethod
    def fence(self, run_id: str) -> None:
        """Commit a version without rows and without an app transaction: a fence against earlier attempts of a run.

        A commit that was prepared on an older version fails, and one that is prepared on a later version finds the
        fence (`holds` of `FileTarget.commit`).

        run_id: of the run whose process makes it.

        Raises:
            Refused: there is no table.
            RetriableFailure: other writers repeatedly committed first.
        """

    @abstractmethod
    def remove_run(self, run: RunCommit) -> TableCommit:
        """Remove the rows that a run landed, and commit its app transaction, so that no attempt can land later.

        Idempotent. If later runs of the chain have landed, the table has a higher app transaction, which stays.

        Raises:
            Refused: there is no table, it is append-only, or it needs another writer; or a later plan of the same run
                id has landed there.
            RetriableFailure: other writers repeatedly committed first.
        """

    @abstractmethod
    def set_properties(self, properties: Mapping[str, str], run: RunCommit) -> None:
        """Set properties of the table, as a commit of this run; none is made if it has them. Idempotent.

        Raises:
            Refused: there is no table.
            RetriableFailure: other writers repeatedly committed first.
        """


class FileTarget(Target):
    """A table whose data files a run's tasks write, and which the driver commits."""

    def enter(self, table: str, targets: TargetsByWriter) -> None:
        targets.by_tasks[table] = self

    @abstractmethod
    def ensure(
        self,
        sink: SinkSchema,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        run_id: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        reshape: Callable[[], None] | None = None,
    ) -> ReadyTable:
        """Create the table, or add the columns that it lacks. Several processes may call this at the same time.

        A table that runs of this job have made, and that never had a row, gets the columns and partitions that it would
        be created with now.

        properties: of a new table, and of one without rows. run_id: of the run that lands there.
        reshape: called before each try of such a change; it raises if the run has lost its lease. None: no such change.

        Raises:
            IncompatibleSchema: the rows do not fit the table.
            ConfigurationError: the table's store is not put-if-absent.
            Refused: the table's properties let app transactions expire.
            TableBusy: other writers repeatedly committed first.
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
        holds: Callable[[], object] | None = None,
    ) -> NewCommit | FoundCommit:
        """Commit a run's files; without files, only its app transaction.

        expected: the table's state in the plan; the table must be the same, without incidents since. columns: the
        columns of the files; the table must still have them. remove: rows that the same commit removes (replace).
        holds: reads in the ledger that this process holds its lease. Each try calls it after it has read the table, if
        the table was fenced since `expected`.

        Raises:
            LeaseLost: of `holds`.
            Refused: the table has a later run of this app (`ledger-older-than-table`), is not the planned one, lets app
                transactions expire, or needs another writer.
            TableBusy: other writers repeatedly committed first.
        """


class FrameTarget(Target):
    """A table that Spark's own writer writes and commits."""

    def enter(self, table: str, targets: TargetsByWriter) -> None:
        targets.by_spark[table] = self

    @abstractmethod
    def ensure(
        self,
        rows: DataFrame,
        sink: SinkSchema,
        *,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
        merge_schema: bool = False,
        run_id: str | None = None,
        reshape: Callable[[], None] | None = None,
    ) -> TableState:
        """Create the table if it does not exist, with the columns of the landed rows; or correct one without rows, as
        `FileTarget.ensure` does.

        Raises:
            ConfigurationError: Delta does not allow the columns, or the store is not safe for Spark's commits.
            Refused: the table's properties let app transactions expire.
        """

    @abstractmethod
    def widen(self, sink: SinkSchema, *, allowed: bool) -> tuple[Widening, ...]:
        """Widen the table's column types to those of the rows; returns the changes. Idempotent.

        Raises:
            IncompatibleSchema: a type must be widened, but this is not `allowed`, or a partition column depends on it.
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
        holds: Callable[[], object] | None = None,
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


@dataclass(frozen=True, slots=True)
class TargetsByWriter:
    """The targets of a run, by who writes their data files: the run's tasks, or Spark's own writer."""

    by_tasks: dict[str, FileTarget] = field(default_factory=dict)
    by_spark: dict[str, FrameTarget] = field(default_factory=dict)

    @classmethod
    def of(cls, targets: Mapping[str, Target]) -> TargetsByWriter:
        """targets: by table."""
        found = cls()
        for table, target in targets.items():
            target.enter(table, found)
        return found


class Maintenance(ABC):
    """OPTIMIZE, VACUUM and retention of one table. Every method may raise RetriableFailure and KsegError.

    by: the writer, `delta-rs` or `spark`. because: the reason why Spark commits to a table to which delta-rs usually
    commits; empty in all other cases.
    """

    by: str
    because: str = ""

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        """See `Target.exclusively`."""
        yield

    @abstractmethod
    def check_store(self) -> None:
        """Raises ConfigurationError if the store is not safe for this writer's commits."""

    @abstractmethod
    def version(self) -> int:
        """The newest version."""

    @abstractmethod
    def live(self) -> FileCount:
        """The newest version's data files."""

    @abstractmethod
    def stored(self) -> FileCount | None:
        """All data files in the table's folder; None if the folder cannot be listed."""

    @abstractmethod
    def retention(self) -> timedelta | None:
        """How long the table itself keeps files that no version has any more; None where it does not say.

        Raises:
            ConfigurationError: it says so in a way that is not understood.
        """

    @abstractmethod
    def optimize(self, z_order: Sequence[str], *, dry_run: bool, details: Mapping[str, Any]) -> int | None:
        """Compact small files; returns the number of files that were (or would be) rewritten, None if unknown.

        z_order: columns by which rows are clustered in files. details: written into the commit.
        """

    @abstractmethod
    def vacuum(self, retention: timedelta, before: datetime, *, dry_run: bool) -> FileCount:
        """Delete files that no version within the retention has, and files of no version that are older than it.

        before: files that were written at this time or later (by the store's clock) are never deleted.
        """

    @abstractmethod
    def delete_runs(self, runs: Sequence[str], *, details: Mapping[str, Any]) -> int:
        """Delete all rows of these runs, in one commit; returns the number of rows."""
