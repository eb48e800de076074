"""Read access to a Delta table with delta-rs, and retries of its commits. No Spark, no JVM.

A run without new records only checks the state of its tables. So modules that read rows, list files or parse log
entries are imported by the methods that need them, and so is pyarrow: importing it takes as long as the check.

Every commit, here and in `delta.commit`, is a compare-and-swap on the table's version. It is made with the snapshot
that was checked, without delta-rs's own retries. The store accepts version n + 1 only once. The second writer starts
again with the new snapshot, so it sees the first writer's commit.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kseg.etl.decoding.rules import COLUMNS_PROPERTY, PROPERTY
from kseg.etl.errors import ConfigurationError, KsegError, RetriableFailure
from kseg.etl.ledger.store_errors import check_endpoint, check_place, store_error
from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.tables.delta.features import removal_reasons, spark_reasons
from kseg.etl.tables.delta.log import commits_back, find_transaction, incidents_since, read_commit
from kseg.etl.tables.delta.lost_files import lost_file
from kseg.etl.tables.delta.readable import is_readable
from kseg.etl.tables.delta.snapshots import Snapshot, Snapshots
from kseg.etl.tables.errors import NeedsSparkWriter, TableBusy, refuse_older_ledger, refuse_other_run
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.protocol import NO_VALUES, TableAccess
from kseg.etl.tables.values import (
    UNKNOWN_VERSION,
    CommitRecord,
    FileCount,
    Incident,
    RunCommit,
    TableDescription,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import ChunkedArray

    from kseg.etl.delta_log.table_log import DeltaLog
    from kseg.etl.tables.removal import Removal

T = TypeVar("T")

RACE_PAUSE = 0.2
FAULT_PAUSE = 5.0

_GENERIC = re.compile(r"^((Generic (DeltaTable )?|C Data interface |External |Parquet |External: )error: )+")


class LostRace(Exception):
    """Another writer made the next version."""


class DeltaAccess(TableAccess):
    """A Delta table, by its log and snapshots.

    path: a local path or URI. storage_options: delta-rs's. deadline: seconds for which one call is retried after
    conflicts with other writers or failures of the store. snapshots: the run's cache of snapshots; None: no cache.
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        deadline: float = 120.0,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Raises ConfigurationError: delta-rs does not support the location, or the endpoint is not a URL."""
        self.location = TableLocation.of(path, storage_options)
        self.name = str(self.location)
        check_place(self.location.uri, setting="sink", table=self.name)
        check_endpoint(self.location.uri, dict(self.location.options), setting="sink", table=self.name)
        self.deadline = deadline
        self._snapshots = snapshots

    @cached_property
    def log(self) -> DeltaLog:
        """The table's log, read without delta-rs.

        Raises:
            ConfigurationError, RetriableFailure: the store rejects an option, or there is no client for it.
        """
        from kseg.etl.delta_log.table_log import DeltaLog
        from kseg.etl.tables.delta.arrow_log import log_of

        return DeltaLog(log_of(self.location))

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> Snapshot | None:
        """The newest snapshot, from the cache if it is still the newest; None if there is no table.

        Raises the exceptions of `load`.
        """
        return self.load() if self._snapshots is None else self._snapshots.newest(self.location, self.load)

    def made(self, make: Callable[[], Snapshot]) -> Snapshot:
        """Create the table with `make`, and cache its snapshot. Raises the exceptions of `make`."""
        return make() if self._snapshots is None else self._snapshots.made(self.location, make)

    def load(self) -> Snapshot | None:
        """The newest snapshot, loaded from the log; None if there is no table.

        Raises:
            ConfigurationError: the store rejects settings or credentials.
            RetriableFailure: the store does not respond.
            Refused: an entry or a checkpoint of the table's log is missing.
            KsegError: delta-rs cannot read the table.
        """
        try:
            return Snapshot(self.location.uri, storage_options=self.location.storage_options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as error:  # ValueError: the log contradicts the schema
            raise self.fault("cannot read the table", error) from error

    def fault(self, doing: str, error: Exception) -> KsegError:
        """Converts an error of delta-rs for this table to an error of this package (`etl.ledger.store_errors`)."""
        if (lost := lost_file(self.location, doing, error)) is not None:
            return lost
        return store_error(doing, error, setting="sink", otherwise=KsegError, table=self.name)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Converts errors while a loaded snapshot is used, because delta-rs reads parts of the log only on demand.

        Raises the exceptions of `load`.
        """
        try:
            yield
        except (DeltaError, OSError) as error:
            raise self.fault("cannot read the table", error) from error

    def _ask(self, question: Callable[[Snapshot], T], otherwise: T) -> T:
        """The result of `question` for the newest snapshot; `otherwise` if there is no table. Raises as `load` does."""
        table = self.look()
        if table is None:
            return otherwise
        with suppress(DeltaError, OSError):
            return question(table)
        self._forget()  # a part of the snapshot's log was deleted
        table = self.look()
        with self._reading():
            return otherwise if table is None else question(table)

    def _forget(self) -> None:
        if self._snapshots is not None:
            self._snapshots.forget(self.location)

    def describe(self, app_ids: Collection[str] = ()) -> TableDescription:
        def answer(table: Snapshot) -> TableDescription:
            versions = {app_id: table.transaction_version(app_id) for app_id in app_ids}
            known = {app_id: version for app_id, version in versions.items() if version is not None}
            rules, of_columns = (_version_in(table, name) for name in (PROPERTY, COLUMNS_PROPERTY))
            return TableDescription(table.state(), known, decoding_rules=rules, column_rules=of_columns)

        return self._ask(answer, TableDescription())

    def state_at(self, version: int) -> TableState | None:
        """The table's state at a version; None if the version can no longer be read."""
        try:
            found = self.log.at(version)
            return None if found is None else TableState(found.metadata.id, version, found.files.rows())
        except KsegError:
            return None

    def transaction_version(self, app_id: str) -> int | None:
        return self._ask(lambda table: table.transaction_version(app_id), None)

    def transactions(self, app: str, now: TableState, after: TableState | None = None) -> Mapping[str, int]:
        since = after.version if after is not None and after.id == now.id and after.version <= now.version else None
        if since == now.version:
            return {}
        from kseg.etl.tables.delta.transactions import transactions_of

        return transactions_of(self.log, app, now.version, since)

    def spark_reasons(self, *, removing: bool | Removal = False) -> tuple[str, ...]:
        """The reasons why only Spark's writer may append to the table; empty if delta-rs may, or there is no table yet.

        removing: include the reasons why only Spark's writer may remove rows (replace). A `Removal`: include them only
        if the removal matches rows of the table.

        Raises:
            Refused: rows must be removed, but the table is append-only.
        """
        table = self.look()
        if table is None:
            return ()
        if reasons := spark_reasons(table):
            return removal_reasons(table, self.name) if removing is True else reasons
        if not isinstance(removing, bool):
            from kseg.etl.tables.delta.rewrite import Rewriter

            try:
                removing = Rewriter(self.location, removing).matches(table)
            except NeedsSparkWriter as needs:
                return needs.reasons
        return removal_reasons(table, self.name) if removing else ()

    @property
    def readable(self) -> bool:
        """Whether `read` and `scan` can read the newest snapshot's rows; otherwise Spark must (`Targets.scan`)."""
        table = self.look()
        return table is None or is_readable(table)

    def file_bytes(self) -> int:
        """The total size of the newest snapshot's data files."""
        table = self.look()
        with self._reading():
            return _sum(table.get_add_actions().column("size_bytes")) if table is not None else 0

    def incidents_since(self, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
        if now is not None and replace(now, rows=recorded.rows) == recorded:
            return ()  # nobody has committed since
        return incidents_since(self.log, recorded, now)

    def history(self, after: TableState | None = None) -> Iterator[CommitRecord]:
        table = self.look()
        if table is None:
            return
        oldest = 0 if after is None else after.version + 1
        for commit in commits_back(self.log, table.version(), oldest):
            yield commit.record

    def recorded_commit(self, commit: TableCommit) -> CommitRecord | None:
        found = None if commit.version == UNKNOWN_VERSION else read_commit(self.log, commit.version)
        return None if found is None else found.record

    def read(self, columns: Sequence[str], equal: Mapping[str, str | int], where: str | None = None) -> pa.Table | None:
        table = self.look()
        if table is None:
            return None
        import pyarrow as pa

        # `to_pyarrow_table` is not used: Arrow's threads would read through a file system in Python. If one of them is
        # closing a file when the interpreter exits, the process aborts, with the exit code of a killed process.
        with self._condition(where):
            return pa.table(table.scan(list(columns), _predicate(equal, where)))

    def missing_files(self, commit: TableCommit | None = None) -> tuple[str, ...]:
        if commit is not None and (commit.version == UNKNOWN_VERSION or not commit.files):
            return ()
        from kseg.etl.tables.delta.missing_files import missing_of_commit, missing_of_snapshot

        try:
            if commit is not None:
                return missing_of_commit(self.look, self.log, self.location.open(), commit.version)
            table = self.look()
            return () if table is None else missing_of_snapshot(table, self.location.open())
        except OSError as error:
            raise self.fault("cannot search for the table's files", error) from error

    def schema(self) -> pa.Schema | None:
        table = self.look()
        return None if table is None else table_schema(table)

    def column_names(self) -> Sequence[str]:
        table = self.look()
        return () if table is None else table_schema(table).names

    def partition_columns(self) -> Sequence[str]:
        table = self.look()
        return () if table is None else table.metadata().partition_columns

    def clustering_columns(self) -> Sequence[str]:
        from kseg.etl.tables.delta.clustering import clustering_columns

        table = self.log.newest()
        return () if table is None else clustering_columns(table)

    def scan(
        self, columns: Sequence[str], equal: Mapping[str, str | int] = NO_VALUES, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        table = self.look()
        if table is None:
            return
        import pyarrow as pa

        with self._condition(where):
            batches = iter(pa.RecordBatchReader.from_stream(table.scan(list(columns), _predicate(equal, where))))
        while True:
            with self._condition(where):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _condition(self, where: str | None) -> Iterator[None]:
        """Converts errors of a scan: if there is a user's condition, a failure counts as an error of the condition."""
        try:
            yield
        except (DeltaError, ValueError, OSError) as error:
            if where is None and not isinstance(error, ValueError):
                raise self.fault("cannot read the table", error) from error
            if where is None:
                raise
            text = _GENERIC.sub("", str(error).strip().partition("\n")[0])
            # Without the cause, which has the same message.
            raise ConfigurationError.of("--where", text, f"SQL over {', '.join(self.column_names())}") from None

    def clean_up(
        self,
        owner: FileOwner,
        commits: Collection[TableCommit] | None = None,
        *,
        after: TableState | None = None,
        unversioned: bool = False,
    ) -> FileCount:
        from kseg.etl.tables.delta.cleanup import clean_up

        versions = None if commits is None else [commit.version for commit in commits]
        if versions is not None and UNKNOWN_VERSION in versions:
            versions = None
        oldest = -1 if after is None else after.version
        return clean_up(
            self.load(), self.log, self.location.open(), owner, versions, after=oldest, unversioned=unversioned
        )

    def refuse_removal(self, table: Snapshot, run: RunCommit, done: int) -> None:
        """Refuse to remove a run's rows if its app transaction, or a later one of the same run id, is not its own.

        A backfill that is abandoned and repeated has the same run id as before, and so have its rows: a process that
        was suspended while it abandoned the first plan must not remove those of the second.

        done: the version of the app's last transaction in the snapshot, at least the run's.

        Raises:
            Refused: `ledger-older-than-table`.
        """
        if run.repeats and done > run.app_version:
            refuse_older_ledger(self.name, run.app_id, done, run.app_version, table.transaction_version)
        found = find_transaction(self.log, run.app_id, run.app_version, table.version())
        refuse_other_run(self.name, run.run_id, run.app_id, found.run if found else None, table.transaction_version)

    # --- trying ------------------------------------------------------------------------------------------------------

    def race_or(self, error: Exception, version: int | None) -> Exception:
        """The cause of a failed commit: LostRace (the table has a new version), an error of the store, or a bug."""
        table = self.load()
        if (None if table is None else table.version()) != version:
            return LostRace()
        if isinstance(error, CommitFailedError):
            return RetriableFailure(f"cannot commit: {error}", table=self.name)
        return self.fault("cannot commit", error)

    def until_deadline(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, which is repeated after conflicts with other writers and failures of the store.

        Raises:
            TableBusy: the deadline has passed.
        """
        begun = time.monotonic()
        tries = 0
        while True:
            failure: Exception
            try:
                return attempt()
            except LostRace as lost:
                failure = lost
            except RetriableFailure as error:
                failure = error
            except (DeltaError, OSError) as error:  # from the log, which delta-rs reads on demand
                failure = self.fault("cannot read the table", error)
                if not isinstance(failure, RetriableFailure):
                    raise failure from error
            self._forget()  # the cached snapshot is out of date
            tries += 1
            raced = isinstance(failure, LostRace)
            if time.monotonic() - begun > self.deadline:
                raise TableBusy(
                    f"no commit in {self.deadline:.0f} s and {tries} attempts" + ("" if raced else f": {failure}"),
                    remedy="run the same command again",
                    table=self.name,
                ) from failure
            # After a conflict, try again almost at once; after a failure of the store, wait longer.
            time.sleep(random.uniform(0, min(RACE_PAUSE if raced else FAULT_PAUSE, 0.01 * 2 ** min(tries, 12))))


def table_schema(table: DeltaTable) -> pa.Schema:
    """A snapshot's schema."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def table_properties(table: DeltaTable) -> dict[str, str]:
    """A snapshot's properties."""
    return {key: value for key, value in table.metadata().configuration.items() if value is not None}


def _version_in(table: DeltaTable, name: str) -> int | None:
    """The version of rules of decoding that a snapshot's property names; None if it names none."""
    text = table_properties(table).get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _sum(numbers: ChunkedArray) -> int:
    """The sum of a column without nulls."""
    return sum(numbers.to_pylist())


def _predicate(equal: Mapping[str, str | int], where: str | None) -> str | None:
    conditions = [f'"{name}" = {sql_literal(value)}' for name, value in equal.items()]
    # On separate lines, so that a comment at the end of the condition does not hide the parenthesis.
    return " AND ".join([*conditions, *([f"(\n{where}\n)"] if where is not None else [])]) or None


def sql_literal(value: str | int) -> str:
    """A value as an SQL literal for a predicate of delta-rs."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def commit_properties(
    details: Mapping[str, Any], people: str | None = None, transactions: Sequence[Transaction] = ()
) -> CommitProperties:
    """Properties of a compare-and-swap commit.

    details: written into the commitInfo as `kseg`. people: the userMetadata, which DESCRIBE HISTORY shows.
    """
    metadata: dict[str, Any] = {"kseg": dict(details)}
    if people is not None:
        metadata["userMetadata"] = people
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=list(transactions) or None)


def commit_files(table: DeltaTable, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties) -> None:
    """Add and remove files with one commit, based on the table object's snapshot. Raises DeltaError, OSError."""
    partition_by = table.metadata().partition_columns
    try:
        table.create_write_transaction(
            list(actions), "append", table.schema(), partition_by, commit_properties=properties
        )
    except ValueError as error:  # the new snapshot contradicts the schema
        raise DeltaError(str(error)) from error
