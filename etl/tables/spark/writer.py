"""Commits with Spark's own Delta writer, for tables that need it (`etl.tables.delta.features`).

`txnAppId` and `txnVersion` make a write idempotent, but Spark does not report whether a write was skipped. So the log
is read before and after the write, and a mark in the commit's `userMetadata` identifies its run. If the store is not
put-if-absent for Spark (a local disk, or S3 with the default log store), two drivers can overwrite each other's
commits. Such a store is an error unless the job sets `single_driver`. With it, our own runs exclude each other by the
table's lease (`etl.tables.lease`): it is checked before every commit, and if it is lost, Spark's job is cancelled.

If a catalog owns the commits of a table, only the commits that it has published are visible.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, RetriableFailure
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.rows.names import LATE_COLUMN, RUN_COLUMN
from kseg.etl.rows.widening import Widening
from kseg.etl.tables.delta.features import refuse_append_only, refuse_retention
from kseg.etl.tables.delta.log import FENCE, FENCE_PROPERTY, Commit, changes_since, find_transaction
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import DeltaAccess, table_properties, table_schema
from kseg.etl.tables.errors import (
    changed_table,
    gone_before_commit,
    refuse_closed,
    refuse_older_ledger,
    refuse_other_ranges,
    refuse_other_run,
)
from kseg.etl.tables.parquet.align import type_changes
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.protocol import NO_PROPERTIES, FrameTarget
from kseg.etl.tables.removal import OfAddresses, OfRun, Removal, quoted
from kseg.etl.tables.spark.correcting import correct
from kseg.etl.tables.spark.create import NewTable, add_late_column, check_partitions, set_properties
from kseg.etl.tables.spark.exclusion import Exclusion
from kseg.etl.tables.spark.failures import committing_to, first_line
from kseg.etl.tables.spark.rows import as_in_table, both_schemas, project
from kseg.etl.tables.spark.stores import unsafe_store
from kseg.etl.tables.spark.widening import widen
from kseg.etl.tables.spark_session import hadoop_place, parallelism, reaching, setting
from kseg.etl.tables.values import UNKNOWN_VERSION, FoundCommit, NewCommit, RunCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kseg.etl.ledger.lease import Lease

_CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview"})
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class SparkTarget(FrameTarget):
    """A Delta table that Spark writes to: by path (or URI), or by name (`catalog.schema.name`).

    open_spark: returns a session that reads and writes Delta; it is called when the table is first used.

    single_driver: the user guarantees that only kseg's drivers write to the table during a run.
    storage_options: delta-rs's options, to read the table's log without Spark.
    """

    def __init__(
        self,
        open_spark: Callable[[], SparkSession],
        *,
        path: str | None = None,
        table: str | None = None,
        single_driver: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        if (path is None) == (table is None):
            raise ValueError("a table has a path or a name")
        self._open_spark = open_spark
        self._path, self._table = path, table
        self.single_driver = single_driver
        self._storage_options = storage_options
        self.name = table if table is not None else str(path)
        self._exclusion = Exclusion(self._guarded_location, open_spark)

    @property
    def _spark(self) -> SparkSession:
        return self._open_spark()

    # --- reading -----------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the Delta table exists."""
        if self._table is not None:
            return bool(self._spark.catalog.tableExists(self._table))
        if not hasattr(self._spark, "_jvm"):  # Connect: the log is read here, as it is when the run commits elsewhere
            return DeltaAccess(str(self._path), self._storage_options).load() is not None
        from delta.tables import DeltaTable

        with reaching(str(self._path)):
            return bool(DeltaTable.isDeltaTable(self._spark, str(self._path)))

    def access(self) -> DeltaAccess | None:
        """The table's log, read without Spark; None if there is no table."""
        if not self.exists():
            return None
        return DeltaAccess(hadoop_place(self._detail()["location"]), self._storage_options)

    def state(self) -> TableState | None:
        """Id, version and number of rows; None if there is no table."""
        return None if (access := self.access()) is None else access.state()

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an app's last transaction; None if it has none, or there is no table."""
        return None if (access := self.access()) is None else access.transaction_version(app_id)

    def frame(self) -> DataFrame:
        with reaching(self.name):
            rows = self._spark.table(self._table) if self._table else self._spark.read.format("delta").load(self._path)
            _ = rows.schema  # which over Spark Connect is when it is looked for
            return rows

    def rows_of_run(self, run_id: str) -> int:
        """The number of rows that a run has landed in the table, by `_kseg_run`."""
        return int(self._spark.table(self._sql_name).where(OfRun(run_id).sql()).count())

    def _detail(self) -> dict[str, Any]:
        return self._spark.sql(f"DESCRIBE DETAIL {self._sql_name}").collect()[0].asDict()

    @property
    def _sql_name(self) -> str:
        return self._table if self._table is not None else f"delta.{quoted(str(self._path))}"

    def sql(self, statement: str) -> list[Any]:
        """The result of an SQL statement, in which `{table}` is this table."""
        return self._spark.sql(statement.replace("{table}", self._sql_name)).collect()

    def set_up_for_vacuum(self) -> contextlib.AbstractContextManager[None]:
        """Spark settings during VACUUM.

        By default, Spark does not delete files younger than a week; callers have checked that these files are not
        needed. By default, it also lists a table's folders with 10,000 tasks, even with few cores.
        """
        tasks = str(4 * parallelism(self._spark))
        wanted = {_RETENTION_CHECK: "false", "spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}
        return setting(self._spark, **wanted)

    # --- making the table --------------------------------------------------------------------------------------------

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
        new = NewTable(project(rows, sink, "").schema, sink, tuple(partition_by), tuple(cluster_by), properties)
        if not self.exists():
            self.check_store()
            self.check_lease()
            with self._made_by(run_id):
                self._create(new.create(self._sql_name))
        else:
            there = self._load()[1]
            if run_id is not None and reshape is not None and not there.files():
                place, before = str(self._detail()["location"]), (self.check_lease, reshape)
                there = correct(new, self._load, self._create, place, run_id, before, merge=merge_schema)
            check_partitions(self.name, table_schema(there), there.metadata().partition_columns, sink, partition_by)
            with self._made_by(run_id):
                if LATE_COLUMN in sink.columns.names:
                    add_late_column(self._spark, self._sql_name, self.name, self.check_lease)
                if there.state().rows == 0:
                    set_properties(self._spark, self._sql_name, there, properties)
        self.check_lease()  # a table that was just created: from here on with its lease
        return self._load()[1].state()

    def _made_by(self, run_id: str | None, **details: bool) -> contextlib.AbstractContextManager[None]:
        """Statements within are commits of this run."""
        metadata = {_USER_METADATA: json.dumps({"kseg": run_id, **details})}
        return setting(self._spark, **(metadata if run_id is not None else {}))

    def _create(self, ddl: str) -> None:
        from pyspark.errors import PySparkException

        try:
            self._spark.sql(ddl)
        except PySparkException as error:
            raise ConfigurationError.of("sink", f"cannot create {self.name}: {first_line(error)}") from error

    def widen(self, sink: SinkSchema, *, allowed: bool) -> tuple[Widening, ...]:
        _, table = self._load()
        partition_by = table.metadata().partition_columns
        changes = type_changes(sink, table_schema(table), partition_by, table=self.name, widen=allowed)
        if changes:
            self.check_store()
            with self._exclusion.committing():
                widen(self._spark, self._sql_name, self.name, changes, table_properties(table))
        return changes

    def check_store(self) -> None:
        """Refuse a store in which Spark's commits are not put-if-absent.

        Raises:
            ConfigurationError: exit 2, unless `single_driver`.
        """
        detail = self._detail() if self.exists() else None
        if self.single_driver or (detail and _CATALOG_FEATURES.intersection(detail["tableFeatures"] or ())):
            return
        place = detail["location"] if detail else self._path if self._path is not None else self._warehouse()
        if reason := self._unsafe(str(place)):
            raise ConfigurationError.of(
                "sink.single_driver",
                f"Spark has to write to {self.name}, and {reason}: two drivers could overwrite each other's commit",
                "use a store that is put-if-absent, or set sink.single_driver: true if nothing but kseg writes to "
                "the table",
            )

    def _warehouse(self) -> str:
        return str(self._spark.conf.get("spark.sql.warehouse.dir"))

    def _unsafe(self, place: str) -> str | None:
        return unsafe_store(self._spark, place)

    # --- one driver at a time ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        with self._exclusion.exclusively(lease, wait=wait):
            yield

    def check_lease(self) -> None:
        """See `Exclusion.check`."""
        self._exclusion.check()

    def _guarded_location(self) -> tuple[bool, TableLocation | None]:
        """Whether the table exists, and its location, if Spark's commits to it need a lease.

        Spark creates no table in a folder that is not empty. So if two drivers create the table at once, one may
        overwrite the other's version 0; the other driver then finds another table id than it has read, and fails.
        """
        if not self.exists():
            return False, None
        detail = self._detail()
        if _CATALOG_FEATURES.intersection(detail["tableFeatures"] or ()) or not self._unsafe(detail["location"]):
            return True, None
        return True, TableLocation.of(hadoop_place(detail["location"]), self._storage_options)

    # --- committing --------------------------------------------------------------------------------------------------

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
        """See `FrameTarget.land`. remove: all new rows must match it too, which `replaceWhere` checks."""
        there = table_schema(self._load()[1])
        projected = as_in_table(project(rows, sink, run.run_id), sink, there)
        with both_schemas(sink, there):
            return self._land(projected, run, expected=expected, merge_schema=merge_schema, remove=remove, holds=holds)

    def _land(
        self,
        rows: DataFrame,
        run: RunCommit,
        *,
        expected: TableState | None = None,
        merge_schema: bool = False,
        remove: Removal | None = None,
        holds: Callable[[], object] | None = None,
    ) -> NewCommit | FoundCommit:
        self.check_store()
        access, table = self._load()
        if (found := self._find_commit(access, table, run, "", expected, holds)) is not None:
            return found
        if FENCE not in run.facts:  # whoever closes a table to a ledger takes the ledger's app transaction as well
            refuse_closed(self.name, run.app_id, table.transaction_version)
        attempt_id = uuid.uuid4().hex
        writer = (
            rows.write.format("delta")
            .mode("overwrite" if remove is not None else "append")
            .option("txnAppId", run.app_id)
            .option("txnVersion", run.app_version)
            .option("userMetadata", json.dumps({"kseg": run.run_id, "attempt": attempt_id, **run.facts}, default=str))
        )
        if remove is not None:
            writer = writer.option("replaceWhere", self._predicate(remove, run.run_id))
        if merge_schema:
            writer = writer.option("mergeSchema", "true")
        with self._exclusion.committing(), committing_to(self.name, run.app_id):
            writer.saveAsTable(self._table) if self._table is not None else writer.save(self._path)
        access, table = self._load()
        outcome = self._find_commit(access, table, run, attempt_id, expected)
        if outcome is None:
            raise RetriableFailure("Spark has written, and the table's log has no such commit", table=self.name)
        return outcome

    def _predicate(self, remove: Removal, run_id: str) -> str:
        """The removal as a condition of `replaceWhere`. Later rows of other writers belong to runs that it lacks."""
        if not isinstance(remove, OfAddresses) or remove.owner is None:
            return remove.sql()
        topic, partition, _ = (quoted(name) for name in remove.address)
        there = self._spark.table(self._sql_name).where(remove.sql()).select(topic, partition, quoted(RUN_COLUMN))
        found = [(TopicPartition(row[0], row[1]), row[2]) for row in there.distinct().collect()]
        return remove.of_runs(found, run_id).sql()

    def remove_run(self, run: RunCommit) -> TableCommit:
        # A run's rows and its app transaction are in one commit. Rows without it are of a table that was recreated from
        # the old one's rows; or, where the id does not say which ledger made the run, another ledger's.
        self.check_store()
        before = None
        while True:
            access, table = self._load()
            before = before or table.state()
            if parse_run_id(run.run_id) is not None:
                refuse_closed(self.name, run.app_id, table.transaction_version)
            landed = self._may_remove(access, table, run)
            if (landed or parse_run_id(run.run_id) is not None) and self.rows_of_run(run.run_id):
                refuse_append_only(self.name, table_properties(table))
                self._delete(run)
            # An attempt that lands in front of the fence has landed rows that were not there a moment ago.
            if landed or isinstance(self._take_transaction(run), NewCommit):
                break
        now = self._load()[1].state()
        gone = 0 if before.rows is None or now.rows is None else before.rows - now.rows
        return TableCommit(now.version, rows=0, after=now, removed=gone, found=now.version == before.version)

    def _may_remove(self, access: DeltaAccess, table: Snapshot, run: RunCommit) -> bool:
        """Whether the run has landed in this snapshot. Raises as `DeltaAccess.refuse_removal`."""
        done = table.transaction_version(run.app_id)
        if done is None or done < run.app_version:
            return False
        access.refuse_removal(table, run, done)
        return True

    def fence(self, run_id: str) -> None:
        # Properties: behind any other commit without rows, Spark puts an append without starting it again.
        self.check_store()
        there, fence = self._load()[1], {FENCE_PROPERTY: uuid.uuid4().hex}
        with self._exclusion.committing(), committing_to(self.name), self._made_by(run_id, **{FENCE: True}):
            set_properties(self._spark, self._sql_name, there, fence)

    def set_properties(self, properties: Mapping[str, str], run: RunCommit) -> None:
        there = self._load()[1]
        with self._exclusion.committing(), committing_to(self.name, run.app_id), self._made_by(run.run_id):
            set_properties(self._spark, self._sql_name, there, properties)

    def _delete(self, run: RunCommit) -> None:
        # No app transaction here: Spark would skip a DELETE that carries the run's own, as already done.
        without = setting(self._spark, **{_APP_ID: None, _APP_VERSION: None})
        with self._exclusion.committing(), committing_to(self.name, run.app_id), without:
            # Another process may have landed a later plan of this run id while the rows were counted. What it appends
            # after Spark has read the table for this statement stays: Delta puts such an append behind the DELETE.
            self._may_remove(*self._load(), run)
            self._spark.sql(f"DELETE FROM {self._sql_name} WHERE {OfRun(run.run_id).sql()}")

    def _take_transaction(self, run: RunCommit) -> NewCommit | FoundCommit:
        """Commit the run's app transaction without rows; FoundCommit: another writer has committed it meanwhile."""
        columns = self._spark.table(self._sql_name).limit(0)
        return self._land(columns, RunCommit(run.run_id, run.app_id, run.app_version, {**run.facts, FENCE: True}))

    def _load(self) -> tuple[DeltaAccess, Snapshot]:
        access = self.access()
        table = None if access is None else access.load()
        if access is None or table is None:
            raise gone_before_commit(self.name)
        refuse_retention(self.name, table_properties(table))
        return access, table

    def _find_commit(
        self,
        access: DeltaAccess,
        table: Snapshot,
        run: RunCommit,
        attempt_id: str,
        expected: TableState | None,
        holds: Callable[[], object] | None = None,
    ) -> NewCommit | FoundCommit | None:
        """The run's commit in the table; None if there is none yet."""
        if expected is not None:
            changes = changes_since(access.log, expected, table.state())
            if changes.fenced and holds is not None:
                holds()
            for incident in changes.incidents:
                raise changed_table(self.name, incident.code, incident.message, incident.version)
        done = table.transaction_version(run.app_id)
        if done is None or done < run.app_version:
            return None
        if done > run.app_version:
            refuse_older_ledger(self.name, run.app_id, done, run.app_version, table.transaction_version)
        oldest = 0 if expected is None else expected.version + 1
        there = find_transaction(access.log, run.app_id, run.app_version, table.version(), oldest)
        if there is None:
            return FoundCommit(
                TableCommit(UNKNOWN_VERSION, self.rows_of_run(run.run_id), after=table.state(), found=True)
            )
        refuse_other_run(self.name, run.run_id, run.app_id, there.run, table.transaction_version)
        refuse_other_ranges(self.name, run.run_id, run.facts, there.details)
        written = _metric(there, "numOutputRows")
        mine = bool(attempt_id) and there.details.get("attempt") == attempt_id
        commit = TableCommit(
            version=there.version,
            # A replace also counts the rows that it copied out of files that went.
            rows=self.rows_of_run(run.run_id) if written is None else written - (_metric(there, "numCopiedRows") or 0),
            after=access.state_at(there.version) or TableState(str(table.metadata().id), there.version),
            removed=_metric(there, "numDeletedRows") or 0,
            files=len(there.added),
            bytes=there.size,
            found=not mine,
            kept=there.details.get("kept"),
        )
        return NewCommit(commit) if mine else FoundCommit(commit)


def _metric(commit: Commit, name: str) -> int | None:
    value = (commit.info.get("operationMetrics") or {}).get(name)
    return None if value is None else int(value)
