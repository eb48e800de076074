"""A job's target tables, and the registry of sinks: selects the implementation of the table protocol for each table.

    sink             commits by   data files by  tables
    ---------------  -----------  -------------  ---------------------------------------------------------------
    DeltaFileSink    the driver   tasks          those at paths, with features that delta-rs supports
    DeltaSparkSink   Spark        Spark          all others: of a catalog, clustered, with other features

The first sink without a reason against it is taken. The writers are imported when they are selected, because a run
without new records only reads its tables' state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.job import Job
from kseg.etl.errors import Refused, listed
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.ledger.values import APP_ROOT, TableRecord, TableState, app_owners
from kseg.etl.tables.delta.sink import DeltaFileSink
from kseg.etl.tables.delta.snapshots import Snapshots
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.errors import (
    NoFileSystem,
    changed_table,
    routed_by_spark,
    side_table_by_spark,
    table_missing,
    table_older_than_ledger,
)
from kseg.etl.tables.parallel import parallel_map
from kseg.etl.tables.protocol import FileTarget, FrameTarget, Maintenance, TableAccess, TargetsByWriter
from kseg.etl.tables.sinks import Needs, Sink
from kseg.etl.tables.spark.sink import DeltaSparkSink
from kseg.etl.tables.values import KnownTable, TableDescription

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.removal import Removal


class Targets:
    """The tables of one job. `spark` returns a session that reads and writes Delta; it is called only when needed."""

    def __init__(self, job: Job, spark: Callable[[], SparkSession]) -> None:
        self._job, self._spark = job, spark
        # The ledger's store is checked whenever a lease is taken.
        self._stores = StoreChecks(job.ledger)
        self._by_files = DeltaFileSink(job, self._stores, Snapshots())
        self._by_spark = DeltaSparkSink(job, spark)
        self._sinks: tuple[Sink, ...] = (self._by_files, self._by_spark)

    def ledger_made(self) -> None:
        """The ledger is new, so its store has passed the test with racing writers; tables there need no second test."""
        self._stores.raced_in(self._job.ledger)

    # --- which sink

    def _sink(self, table: str, needs: Needs = Needs()) -> Sink:  # noqa: B008
        """The first sink that can do what is needed."""
        return next(sink for sink in self._sinks if not sink.reasons_against(table, needs))

    def target(self, table: str, *, removing: bool = False, rows: SinkSchema | None = None) -> FileTarget | FrameTarget:
        """The implementation with which a run commits to the table.

        removing: the commits also remove rows. rows: the schema for which the table's types may have to be widened;
        None: no widening.

        Raises:
            Refused: rows must be removed, but the table is append-only.
        """
        return self._sink(table, Needs(removing=removing, rows=rows)).target(table)

    def by_spark(self, tables: Iterable[str], *, removing: bool = False) -> list[str]:
        """Those of these tables to which Spark has to write, as they are now. Spark is not started for a table of a
        path. removing: as of `target`."""
        return [table for table in tables if self._sink(table, Needs(removing=removing)).by_spark]

    def target_without(self, table: str, run_id: str) -> FileTarget | FrameTarget:
        """The implementation with which `remove_run` removes this run's rows; the table may have none.

        Raises:
            Refused: the table has rows of the run, but is append-only.
        """
        from kseg.etl.tables.removal import OfRun

        return self._sink(table, Needs(removing=OfRun(run_id))).target(table)

    def side_target(self, table: str, *, setting: str) -> FileTarget:
        """A table of damaged bytes or dead letters. Raises ConfigurationError: as `refuse_spark_side_table`."""
        return TargetsByWriter.of({table: self._side_sink(table, setting).target(table)}).by_tasks[table]

    def _side_sink(self, table: str, setting: str) -> Sink:
        """The first sink that takes files of tasks. Raises ConfigurationError: as `refuse_spark_side_table`."""
        against: list[str] = []
        for sink in self._sinks:
            reasons = sink.reasons_against(table, Needs(beside=True))
            if not reasons:
                return sink
            against += reasons if not sink.by_spark else ()
        raise side_table_by_spark(table, setting, against)

    def access(self, table: str) -> TableAccess | None:
        """Read access to the table; None if the catalog does not have it."""
        return self._access(table)

    def maintenance(self, table: str, *, z_order: bool = False) -> Maintenance:
        """Maintenance of an existing table, by the first sink that can do it.

        z_order: OPTIMIZE must order rows.
        """
        access = self._access(table)
        if access is None:
            raise table_missing(table, routed=self._job.sink.routed)
        sink, ordering = self._sink(table, Needs(maintaining=True)), Needs(maintaining=True, ordering=True)
        if z_order and (reasons := sink.reasons_against(table, ordering)):
            return self._sink(table, ordering).maintenance(table, access, because="; ".join(reasons))
        return sink.maintenance(table, access)

    def frame(self, table: str, columns: Sequence[str] | None = None, within: Removal | None = None) -> DataFrame:
        """The table's rows as a DataFrame, read by Spark's own reader if Spark has a file system for the store.

        columns, within: the required columns and rows; the DataFrame may have more of both.

        Raises:
            ConfigurationError: Spark cannot reach the store, and the table has features that need Spark's reader.
        """
        from kseg.etl.tables.spark.read import frame_of_files

        try:
            return self._by_spark.target(table).frame()
        except NoFileSystem:
            if resolve(table).location is None:  # Spark alone knows where it is
                raise
            frame = frame_of_files(self._spark(), self._by_files.access(table), columns, within)
            if frame is None:
                raise
            return frame

    def scan(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, in batches; Spark reads them if delta-rs cannot read the table."""
        access = self._access(table)
        if access is None:
            return
        if access.readable:
            yield from access.scan(columns)
        else:
            from kseg.etl.tables.removal import quoted
            from kseg.etl.tables.spark.read import batches_of

            yield from batches_of(self._by_spark.target(table).frame().select(*map(quoted, columns)))

    def is_small(self, table: str, *, rows: int, file_bytes: int) -> bool:
        """Whether delta-rs reads and writes this table of a path, and its rows and files are no more than these."""
        if resolve(table).location is None:
            return False
        access = self._by_files.access(table)
        now = access.state()
        if now is None or now.rows is None or now.rows > rows or access.file_bytes() > file_bytes:
            return False
        return access.readable and not access.spark_reasons()

    def check_fit(self, table: str, rows: SinkSchema, run_id: str) -> bool:
        """Whether rows fit a table as it is now, or as their run would change it (`FileTarget.ensure`); False where
        only Spark's own writer knows. Nothing is written.

        run_id: of the run.

        Raises:
            IncompatibleSchema: they do not.
            ConfigurationError: there is no table, and none can be laid out by these columns.
        """
        from kseg.etl.tables.parquet.layout import check_layout

        there = self.access(table)
        if there is None or there.state() is None:
            check_layout(rows.columns, self._job.sink.partition_columns, self._job.sink.cluster_by)
        return self._sink(table, Needs(rows=rows)).check_fit(table, rows, run_id)

    def layout_notes(self, tables: Iterable[str]) -> list[str]:
        """For users: which tables exist and are not clustered as the job file says. A run does not change that."""
        asked = self._job.sink.cluster_by
        wanted = {name.lower() for name in asked}

        def other_layout(table: str) -> str | None:
            access = self.access(table)
            if access is None or access.state() is None:
                return None
            clustered = access.clustering_columns()
            if {name.lower() for name in clustered} == wanted:
                return None
            if partitioned := access.partition_columns():
                return f"partitioned by {', '.join(partitioned)}: only a new table can be clustered"
            now = f"clustered by {', '.join(clustered)}" if clustered else "not clustered"
            return f"{now}: `ALTER TABLE … CLUSTER BY ({', '.join(asked)})` changes that, a run does not"

        found: dict[str, list[str]] = {}
        if asked:
            for table, layout in parallel_map(sorted(tables), other_layout).items():
                if layout is not None:
                    found.setdefault(layout, []).append(table)
        return [f"sink.cluster_by has no effect on {listed(named)}, {layout}" for layout, named in found.items()]

    def refuse_spark(self, tables: Iterable[str]) -> None:
        """Raises ConfigurationError for a table that Spark's own writer would have to commit rows to."""
        for table in tables:
            if not self._sink(table).routes:
                raise routed_by_spark(table)

    def refuse_spark_side_table(self, table: str, setting: str) -> None:
        """For a side table, whose files only tasks write. setting: its key in the job file.

        Raises:
            ConfigurationError: it has features that only Spark's own writer can honour.
        """
        self._side_sink(table, setting)

    def _access(self, table: str) -> DeltaAccess | None:
        in_spark = resolve(table).location is None
        return self._by_spark.target(table).access() if in_spark else self._by_files.access(table)

    # --- what the ledger knows of a table against what it is

    def check(self, table: str, known: KnownTable) -> TableState | None:
        """The table as it is now, if nothing happened to it since the ledger saw it; None: there is none, rightly.

        Raises:
            Refused: rows have landed in it, and it is gone or another one; or it was restored, replaced, overwritten or
                truncated.
        """
        access = self.access(table)
        now = access.state() if access is not None else None
        _refuse_incidents(table, access, known.compared_with(now), now, routed=self._job.sink.routed)
        return now

    def check_landed(self, table: str, after: TableState) -> None:
        """Does the same as `check`, for a table in which a run has landed. after: its state after that."""
        self.check(table, KnownTable(after, TableRecord(landed=after)))

    def examine(
        self, table: str, known: Callable[[TableState | None], KnownTable], app: str, app_ids: Collection[str] = ()
    ) -> TableDescription:
        """The table as it is now, if it is what the ledger left, with the transactions of a job in it.

        known: gives what the ledger knows of it, by its state. app: of the job; its transactions, and those of the apps
        below it, are read from what was committed since the ledger examined the table. app_ids: of these in any case.

        Raises:
            Refused: as `check`; or the table has lost a landing (`table-older-than-ledger`).
        """
        access = self.access(table)
        if access is None:
            gone = known(None).compared_with(None)
            _refuse_incidents(table, None, gone, None, routed=self._job.sink.routed)
            return TableDescription()
        by_name = known(None).record
        now = access.describe({*app_ids, by_name.app_id} - {""})
        place = access.location.place
        left = known(now.state)
        compared = left.compared_with(now.state)
        _refuse_incidents(table, access, compared, now.state, routed=self._job.sink.routed)
        if now.state is None:
            return TableDescription(place=place)
        record = left.record
        landed = now.transactions.get(record.app_id, 0)
        if record.app_id != by_name.app_id:
            landed = access.transaction_version(record.app_id) or 0
        if record.landed is not None and record.landed.id == now.state.id and landed < record.app_version:
            raise table_older_than_ledger(table, record.app_id, landed, record.app_version)
        since = access.transactions(app, now.state, record.examined or left.state)
        return replace(now, transactions={**since, **now.transactions}, place=place)

    def refuse_other_ledger(self, table: str, known: Collection[str]) -> None:
        """For a job's first run in a ledger: the table may hold what the job landed with another one, now lost.

        known: ids of this ledger, and of those that it was rebuilt after.

        Raises:
            Refused: `ledger-lost`. Starting over would land those rows again.
        """
        access = self.access(table)
        now = access.state() if access is not None else None
        if access is None or now is None:
            return
        for other, job in app_owners(access.transactions(APP_ROOT, now)):
            if job == self._job.name and other not in known:
                case = "table" if self._job.group is None else "table, job with a group"
                raise Refused.of("ledger-lost", {"other": other}, case=case, table=table)

    def rows_of_run(self, table: str, run_id: str) -> int:
        """How many rows of the table a run has landed; 0 where there is no table."""
        return self.target(table).rows_of_run(run_id)

    def transaction_version(self, table: str, app_id: str) -> int:
        """The version of an app's last transaction in the table, 0 where it has none."""
        access = self.access(table)
        return (access.transaction_version(app_id) or 0) if access is not None else 0


def _refuse_incidents(
    table: str, access: TableAccess | None, known: TableState | None, now: TableState | None, *, routed: bool
) -> None:
    if known is None:
        return
    if access is None:
        raise table_missing(table, routed=routed)
    for incident in access.incidents_since(known, now):
        if incident.code == "table-missing":
            raise table_missing(table, routed=routed)
        raise changed_table(table, incident.code, incident.message, incident.version)


def table_at(path: str) -> TableAccess:
    """A table at a path or URI, to read, where there is no job."""
    return DeltaAccess(path)


def access_at(table: str) -> TableAccess | None:
    """A target of a job file, to read, where there is no job; None for one that only Spark can read."""
    found = resolve(table)
    return None if found.location is None else DeltaAccess(found.location, found.credentials or None)


def description_at(table: str) -> TableDescription | None:
    """A table as it is now, where there is no job; None for one that only Spark can read."""
    access = access_at(table)
    return None if access is None else access.describe()
