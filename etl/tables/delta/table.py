"""A Delta table through delta-rs: its state, whether rows fit it, and creating or extending it. No Spark, no JVM.

A run with nothing to do examines its tables here and reads nothing of them. So what reads rows, lists files or parses
entries of the log is imported by the methods that need it, and pyarrow with it: it takes as long as the examination.

Every commit made here and in `delta.commit` is a compare-and-swap on the table's version: made with the snapshot that
was checked, without retries of delta-rs' own. The store accepts version n + 1 once; the writer that comes second starts
over from the new snapshot, so it sees what was committed in between.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kseg.etl.errors import ConfigurationError, KsegError, RetriableFailure
from kseg.etl.ledger.store_errors import check_endpoint, check_place, store_error
from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.tables.delta.features import removal_reasons, spark_reasons
from kseg.etl.tables.delta.log import commits_back, incidents_since, read_commit
from kseg.etl.tables.delta.lost_files import lost_file
from kseg.etl.tables.delta.readable import is_readable
from kseg.etl.tables.delta.snapshots import Snapshot, Snapshots
from kseg.etl.tables.errors import NeedsSparkWriter, TableBusy
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.protocol import NO_VALUES, TableAccess
from kseg.etl.tables.values import (
    UNKNOWN_VERSION,
    CommitRecord,
    FileCount,
    Incident,
    TableDescription,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import ChunkedArray

    from kseg.etl.tables.removal import Removal

T = TypeVar("T")

RACE_PAUSE = 0.2
FAULT_PAUSE = 5.0

_GENERIC = re.compile(r"^((Generic (DeltaTable )?|C Data interface |External |Parquet |External: )error: )+")


class LostRace(Exception):
    """Another writer made the next version."""


class DeltaAccess(TableAccess):
    """A Delta table by its log and snapshots.

    path: a local path or URI. storage_options: as delta-rs takes them. deadline: seconds that one call may go on trying
    while other writers or the store come in between. snapshots: those of a run that looks at the table more than once.
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        deadline: float = 120.0,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Raises ConfigurationError: delta-rs can open no table there, or the endpoint is not a URL."""
        self.location = TableLocation.of(path, storage_options)
        self.name = str(self.location)
        check_place(self.location.uri, setting="sink", table=self.name)
        check_endpoint(self.location.uri, dict(self.location.options), setting="sink", table=self.name)
        self.deadline = deadline
        self._snapshots = snapshots

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> Snapshot | None:
        """The newest snapshot, perhaps one that was looked at before; None where there is no table.

        Raises as `load` does.
        """
        return self.load() if self._snapshots is None else self._snapshots.newest(self.location, self.load)

    def made(self, make: Callable[[], Snapshot]) -> Snapshot:
        """The table that `make` makes here, as it is looked at afterwards. Raises what `make` raises."""
        return make() if self._snapshots is None else self._snapshots.made(self.location, make)

    def load(self) -> Snapshot | None:
        """The newest snapshot, as the log has it now; None where there is no table.

        Raises:
            ConfigurationError: the store wants other settings, or credentials.
            RetriableFailure: the store does not answer.
            Refused: an entry of its log is missing, or a checkpoint.
            KsegError: there is a table that delta-rs cannot read.
        """
        try:
            return Snapshot(self.location.uri, storage_options=self.location.storage_options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self.fault("cannot read the table", error) from error

    def fault(self, doing: str, error: Exception) -> KsegError:
        """delta-rs' error for this table as one of this package (`etl.ledger.store_errors`)."""
        if (lost := lost_file(self.location, doing, error)) is not None:
            return lost
        return store_error(doing, error, setting="sink", otherwise=KsegError, table=self.name)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Around what is asked of a snapshot that is loaded: delta-rs reads parts of the log when they are asked for.

        Raises as `load` does.
        """
        try:
            yield
        except (DeltaError, OSError) as error:
            raise self.fault("cannot read the table", error) from error

    def _ask(self, question: Callable[[Snapshot], T], otherwise: T) -> T:
        """What the newest snapshot answers; `otherwise` where there is no table. Raises as `load` does."""
        table = self.look()
        if table is None:
            return otherwise
        with suppress(DeltaError, OSError):
            return question(table)
        self._forget()  # a part of the log that it was loaded from is gone
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
            return TableDescription(table.state(), known)

        return self._ask(answer, TableDescription())

    def state_at(self, version: int) -> TableState | None:
        """The state that a version left; None where it cannot be read any more."""
        try:
            options = self.location.storage_options
            return Snapshot(self.location.uri, version=version, storage_options=options).state()
        except (DeltaError, OSError):
            return None

    def transaction_version(self, app_id: str) -> int | None:
        return self._ask(lambda table: table.transaction_version(app_id), None)

    def transactions(self, app: str, now: TableState, after: TableState | None = None) -> Mapping[str, int]:
        since = after.version if after is not None and after.id == now.id and after.version <= now.version else None
        if since == now.version:
            return {}
        from kseg.etl.tables.delta.transactions import transactions_of

        return transactions_of(self.location.open(), app, now.version, since)

    def spark_reasons(self, *, removing: bool | Removal = False) -> tuple[str, ...]:
        """Why only Spark's writer may append to the table; empty where delta-rs may, or there is no table yet.

        removing: also why it alone may remove rows (replace); of a removal, only where it matches rows of the table.

        Raises:
            Refused: rows are to be removed and the table is append-only.
        """
        table = self.look()
        if table is None:
            return ()
        if reasons := spark_reasons(table):
            return removal_reasons(table, self.name) if removing is True else reasons
        if not isinstance(removing, bool):
            from kseg.etl.tables.delta.rewrite import Rewriter

            try:
                removing = Rewriter(self.location, removing, "").matches(table)
            except NeedsSparkWriter as needs:
                return needs.reasons
        return removal_reasons(table, self.name) if removing else ()

    @property
    def readable(self) -> bool:
        """Whether `read` and `scan` can give the rows of the newest snapshot; else Spark has to (`Targets.scan`)."""
        table = self.look()
        return table is None or is_readable(table)

    def file_bytes(self) -> int:
        """The size of the newest snapshot's data files together."""
        table = self.look()
        with self._reading():
            return _sum(table.get_add_actions().column("size_bytes")) if table is not None else 0

    def incidents_since(self, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
        if now is not None and replace(now, rows=recorded.rows) == recorded:
            return ()  # nobody has committed since
        return incidents_since(self.location.open(), recorded, now)

    def history(self, after: TableState | None = None) -> Iterator[CommitRecord]:
        table = self.look()
        if table is None:
            return
        oldest = 0 if after is None else after.version + 1
        for commit in commits_back(self.location.open(), table.version(), oldest):
            yield commit.record

    def recorded_commit(self, commit: TableCommit) -> CommitRecord | None:
        found = None if commit.version == UNKNOWN_VERSION else read_commit(self.location.open(), commit.version)
        return None if found is None else found.record

    def read(self, columns: Sequence[str], equal: Mapping[str, str | int], where: str | None = None) -> pa.Table | None:
        table = self.look()
        if table is None:
            return None
        import pyarrow as pa

        # Not by `to_pyarrow_table`: Arrow's threads would read through a file system in Python, and one of them that
        # still closes a file when the interpreter ends aborts the process, and the exit code says that it was killed.
        with self._condition(where):
            return pa.table(table.scan(list(columns), _predicate(equal, where)))

    def missing_files(self, commit: TableCommit | None = None) -> tuple[str, ...]:
        if commit is not None and (commit.version == UNKNOWN_VERSION or not commit.files):
            return ()
        from kseg.etl.tables.delta.missing_files import missing_of_commit, missing_of_snapshot

        try:
            if commit is not None:
                return missing_of_commit(self.look, self.location.open(), commit.version)
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
        """Around a scan: that it fails with a condition of the user is the condition's error."""
        try:
            yield
        except (DeltaError, ValueError, OSError) as error:
            if where is None and not isinstance(error, ValueError):
                raise self.fault("cannot read the table", error) from error
            if where is None:
                raise
            text = _GENERIC.sub("", str(error).strip().partition("\n")[0])
            # Without its cause, which says the same once more.
            raise ConfigurationError.of("--where", text, f"SQL over {', '.join(self.column_names())}") from None

    def clean_up(
        self, run_id: str, commits: Collection[TableCommit] | None = None, *, after: TableState | None = None
    ) -> FileCount:
        from kseg.etl.tables.delta.cleanup import clean_up

        versions = None if commits is None else [commit.version for commit in commits]
        if versions is not None and UNKNOWN_VERSION in versions:
            versions = None
        oldest = -1 if after is None else after.version
        return clean_up(self.load(), self.location.open(), run_id, versions, after=oldest)

    # --- trying ------------------------------------------------------------------------------------------------------

    def race_or(self, error: Exception, version: int | None) -> Exception:
        """What a failed commit means: a race lost (the table has moved on), an error of the store, or a bug."""
        table = self.load()
        if (None if table is None else table.version()) != version:
            return LostRace()
        if isinstance(error, CommitFailedError):
            return RetriableFailure(f"cannot commit: {error}", table=self.name)
        return self.fault("cannot commit", error)

    def until_deadline(self, attempt: Callable[[], T]) -> T:
        """What the attempt returns, repeated while it loses races or the store fails.

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
            except (DeltaError, OSError) as error:  # of the log, which delta-rs reads when it is asked for something
                failure = self.fault("cannot read the table", error)
                if not isinstance(failure, RetriableFailure):
                    raise failure from error
            self._forget()  # nothing that was seen before counts
            tries += 1
            raced = isinstance(failure, LostRace)
            if time.monotonic() - begun > self.deadline:
                raise TableBusy(
                    f"no commit in {self.deadline:.0f} s and {tries} attempts" + ("" if raced else f": {failure}"),
                    remedy="run the same command again",
                    table=self.name,
                ) from failure
            # After a lost race the next try is at once; a store that fails is given time.
            time.sleep(random.uniform(0, min(RACE_PAUSE if raced else FAULT_PAUSE, 0.01 * 2 ** min(tries, 12))))


def table_schema(table: DeltaTable) -> pa.Schema:
    """A snapshot's schema."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def table_properties(table: DeltaTable) -> dict[str, str]:
    """A snapshot's properties."""
    return {key: value for key, value in table.metadata().configuration.items() if value is not None}


def _sum(numbers: ChunkedArray) -> int:
    """The sum of numbers without nulls, one a file."""
    return sum(numbers.to_pylist())


def _predicate(equal: Mapping[str, str | int], where: str | None) -> str | None:
    conditions = [f'"{name}" = {sql_literal(value)}' for name, value in equal.items()]
    # On lines of its own: a comment at its end must not take the parenthesis along.
    return " AND ".join([*conditions, *([f"(\n{where}\n)"] if where is not None else [])]) or None


def sql_literal(value: str | int) -> str:
    """A value in a predicate of delta-rs."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def commit_properties(
    details: Mapping[str, Any], people: str | None = None, transactions: Sequence[Transaction] = ()
) -> CommitProperties:
    """Properties of a compare-and-swap commit.

    details: written as `kseg` into the commit's commitInfo. people: its userMetadata, which DESCRIBE HISTORY shows.
    """
    metadata: dict[str, Any] = {"kseg": dict(details)}
    if people is not None:
        metadata["userMetadata"] = people
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=list(transactions) or None)


def commit_files(table: DeltaTable, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties) -> None:
    """Add and remove files in one commit of the table object's snapshot. Raises DeltaError, OSError."""
    partition_by = table.metadata().partition_columns
    table.create_write_transaction(list(actions), "append", table.schema(), partition_by, commit_properties=properties)
