"""A Delta table through delta-rs: what it is, whether rows fit it, and making it so. No Spark, no JVM.

Every commit made here and in `delta` is a compare-and-swap on the table's version: made with the snapshot that was
looked at, with no retries of delta-rs' own. The store takes version n + 1 once; whoever comes second starts over and
looks again, so nothing that anybody committed in between goes unseen.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kseg.etl.errors import KsegError, RetriableFailure
from kseg.etl.ledger.events import TableState
from kseg.etl.ledger.store_errors import check_endpoint, store_error
from kseg.etl.tables.delta.features import refuse_retention, removal_reasons, spark_reasons
from kseg.etl.tables.delta.log import Incident, incidents_since
from kseg.etl.tables.errors import TableBusy
from kseg.etl.tables.parquet.align import TableColumns, align, new_table
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.statistics import StatsSpec, properties_for
from kseg.etl.tables.parquet.storage import TableLocation

T = TypeVar("T")

RACE_PAUSE = 0.2
FAULT_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class ReadyTable:
    """A table as a run may write to it: how its columns are written, with which statistics, and its state."""

    columns: TableColumns
    stats: StatsSpec
    state: TableState


class LostRace(Exception):
    """Somebody else made the next version."""


class TableAccess:
    """A table's place, and all that may be asked of it.

    path: a local path or URI. storage_options: as delta-rs takes them. deadline: seconds that one call may go on trying
    while other writers or the store come in between.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None, *, deadline: float = 120.0) -> None:
        self.location = TableLocation.of(path, storage_options)
        self.name = str(self.location)
        check_endpoint(self.location.uri, dict(self.location.options), setting="sink", table=self.name)
        self.deadline = deadline

    # --- looking -----------------------------------------------------------------------------------------------------

    def load(self) -> DeltaTable | None:
        """The newest snapshot; None where there is no table.

        Raises:
            ConfigurationError: the store wants other settings, or credentials.
            RetriableFailure: the store does not answer.
            KsegError: there is a table that delta-rs cannot read.
        """
        try:
            return DeltaTable(self.location.uri, storage_options=self.location.storage_options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self.fault("cannot read the table", error) from error

    def fault(self, doing: str, error: Exception) -> KsegError:
        """What delta-rs raised for this table, as an error of ours (`etl.ledger.store_errors`)."""
        return store_error(doing, error, setting="sink", otherwise=KsegError, table=self.name)

    def look(self, app_ids: Collection[str] = ()) -> tuple[TableState | None, dict[str, int]]:
        """As `state`, and the versions of these apps' last transactions, of those that have any; in one look."""
        table = self.load()
        if table is None:
            return None, {}
        versions = {app_id: table.transaction_version(app_id) for app_id in app_ids}
        return table_state(table), {app_id: version for app_id, version in versions.items() if version is not None}

    def state(self) -> TableState | None:
        """Id, version and number of rows; None where there is no table."""
        return self.look()[0]

    def state_at(self, version: int) -> TableState | None:
        """The state that a version left; None where it cannot be read any more."""
        try:
            options = self.location.storage_options
            return table_state(DeltaTable(self.location.uri, version=version, storage_options=options))
        except (DeltaError, OSError):
            return None

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an app's last transaction; None where it has none, or there is no table."""
        table = self.load()
        return None if table is None else table.transaction_version(app_id)

    def paths(self, table: DeltaTable) -> set[str]:
        """The snapshot's data files: paths relative to the table (absolute ones of shallow clones), decoded."""
        return {unquote(path) for path in pa.chunked_array(table.get_add_actions().column("path")).to_pylist()}

    def spark_reasons(self, *, removing: bool = False) -> tuple[str, ...]:
        """Why only Spark's writer may append to the table; empty where delta-rs may, or there is no table yet.

        removing: also why it alone may remove rows (replace).

        Raises:
            Refused: rows are to be removed and the table is append-only.
        """
        table = self.load()
        if table is None:
            return ()
        return removal_reasons(table, self.name) if removing else spark_reasons(table)

    def incidents_since(self, recorded: TableState, now: TableState | None) -> tuple[Incident, ...]:
        """What happened to the table between two states that a ledger must not go on over (`etl.tables.delta.log`).

        now: as `state` has just told it.
        """
        return incidents_since(self.location.open(), recorded, now)

    # --- making it fit -----------------------------------------------------------------------------------------------

    def fit(self, sink: SinkSchema, *, partition_by: Sequence[str] = (), merge_schema: bool = False) -> TableColumns:
        """How the sink's rows fit the table, or the one that `ensure` would create. Nothing is written.

        Raises:
            IncompatibleSchema: they do not.
            Refused: the table forgets app transactions.
        """
        return self._fit(self.load(), sink, partition_by, merge_schema)

    def ensure(
        self,
        sink: SinkSchema,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        run_id: str | None = None,
    ) -> ReadyTable:
        """Create the table or add the columns that it lacks, each in a commit of its own, and tell how to write to it.

        Any number of processes may call this at once: one of them creates the table.

        Raises:
            IncompatibleSchema, Refused: as `fit`.
            TableBusy: the deadline has passed.
        """

        def attempt() -> ReadyTable:
            table = self.load()
            columns = self._fit(table, sink, partition_by, merge_schema)
            if table is None:
                table = self._create(sink, columns, run_id)
            elif len(columns.added):
                table = self._add_columns(table, columns.added, run_id)
            stats = StatsSpec.of(columns.table_schema, columns.partition_by, table_properties(table))
            return ReadyTable(columns, stats, table_state(table))

        return self._until_deadline(attempt)

    def _fit(
        self, table: DeltaTable | None, sink: SinkSchema, partition_by: Sequence[str], merge_schema: bool
    ) -> TableColumns:
        if table is None:
            return new_table(sink, partition_by, table=self.name)
        refuse_retention(self.name, table_properties(table))
        return align(
            sink,
            table_schema(table),
            table.metadata().partition_columns,
            table=self.name,
            asked_partition_by=partition_by,
            merge_schema=merge_schema,
        )

    def _create(self, sink: SinkSchema, columns: TableColumns, run_id: str | None) -> DeltaTable:
        try:
            # With retries of its own, delta-rs lets the loser of a race commit its metadata as version 1: the table
            # would change its id under the winner.
            return DeltaTable.create(
                self.location.uri,
                Schema.from_arrow(columns.schema),
                mode="error",
                partition_by=list(columns.partition_by),
                configuration=properties_for(columns.schema, columns.partition_by, sink.address or ()),
                storage_options=self.location.storage_options,
                commit_properties=commit_properties({"run": run_id}),
            )
        except (DeltaError, OSError) as error:
            raise self._race_or(error, None) from error

    def _add_columns(self, table: DeltaTable, added: pa.Schema, run_id: str | None) -> DeltaTable:
        version = table.version()
        fields = list(Schema.from_arrow(added).fields)
        try:
            table.alter.add_columns(fields, commit_properties=commit_properties({"run": run_id}))
        except (DeltaError, OSError) as error:
            raise self._race_or(error, version) from error
        return table

    # --- trying ------------------------------------------------------------------------------------------------------

    def _race_or(self, error: Exception, version: int | None) -> Exception:
        """What a failed commit means: a race lost (the table has moved on), or a fault of the store or of ours."""
        table = self.load()
        if (None if table is None else table.version()) != version:
            return LostRace()
        if isinstance(error, CommitFailedError):
            return RetriableFailure(f"cannot commit: {error}", table=self.name)
        return self.fault("cannot commit", error)

    def _until_deadline(self, attempt: Callable[[], T]) -> T:
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
            tries += 1
            raced = isinstance(failure, LostRace)
            if time.monotonic() - begun > self.deadline:
                raise TableBusy(
                    f"no commit in {self.deadline:.0f} s and {tries} attempts" + ("" if raced else f": {failure}"),
                    remedy="run the same command again",
                    table=self.name,
                ) from failure
            # Races are won by looking again at once; a store that fails is given time.
            time.sleep(random.uniform(0, min(RACE_PAUSE if raced else FAULT_PAUSE, 0.01 * 2 ** min(tries, 12))))


def table_schema(table: DeltaTable) -> pa.Schema:
    """A snapshot's schema."""
    return pa.schema(table.schema().to_arrow())


def table_properties(table: DeltaTable) -> dict[str, str]:
    """A snapshot's properties."""
    return {key: value for key, value in table.metadata().configuration.items() if value is not None}


def table_state(table: DeltaTable) -> TableState:
    """A snapshot as the ledger records it. Rows are None where a file has no statistics."""
    counts = pa.chunked_array(table.get_add_actions().column("num_records"))
    rows = None if counts.null_count else sum(counts.to_pylist())
    if rows and "deletionVectors" in (table.protocol().reader_features or []):
        vectors = (pa.record_batch(batch).column("selection_vector") for batch in table.deletion_vectors())
        rows -= sum(not kept for column in vectors for kept in column.flatten().to_pylist())
    return TableState(str(table.metadata().id), table.version(), rows)


def commit_properties(
    told: Mapping[str, Any], people: str | None = None, transactions: Sequence[Transaction] = ()
) -> CommitProperties:
    """Properties of a compare-and-swap commit.

    told: stands as `kseg` in the commit's commitInfo. people: its userMetadata, which DESCRIBE HISTORY shows.
    """
    metadata: dict[str, Any] = {"kseg": dict(told)}
    if people is not None:
        metadata["userMetadata"] = people
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=list(transactions) or None)
