"""Delta by delta-rs: tasks write the files of tables at paths, the driver commits them.

What only a commit needs is imported when it is needed: a run without new records only reads its tables' state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kseg.etl.catalogs.registry import catalog_of, resolve
from kseg.etl.config.job import Job
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.tables.delta.features import Z_ORDER_BY_SPARK
from kseg.etl.tables.delta.snapshots import Snapshots
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.sinks import Needs, Sink

if TYPE_CHECKING:
    from kseg.etl.tables.delta.commit import DeltaTarget
    from kseg.etl.tables.delta.maintenance import DeltaMaintenance
    from kseg.etl.tables.parquet.schema import SinkSchema


class DeltaFileSink(Sink):
    """See the module's docstring. stores, snapshots: shared by all tables of a run."""

    by_spark: ClassVar[bool] = False
    routes: ClassVar[bool] = True

    def __init__(self, job: Job, stores: StoreChecks, snapshots: Snapshots) -> None:
        self._job, self._stores, self._snapshots = job, stores, snapshots

    def reasons_against(self, table: str, needs: Needs) -> tuple[str, ...]:
        if catalog_of(table).commits == "spark":
            return ("Spark commits to tables of its catalogs",)
        access = self.access(table)
        if reasons := access.spark_reasons(removing=needs.removing):
            return reasons
        if needs.beside:
            return ()
        if self._job.sink.cluster_by and access.state() is None:
            return ("it will be clustered",)
        if needs.rows is not None and self._widens(access, needs.rows):
            return ("types of its columns will be widened",)
        if needs.maintaining:
            from kseg.etl.tables.delta.maintenance import DeltaMaintenance

            if reasons := DeltaMaintenance.spark_reasons(access):
                return reasons
        return (Z_ORDER_BY_SPARK,) if needs.ordering else ()

    def target(self, table: str) -> DeltaTarget:
        from kseg.etl.tables.delta.commit import DeltaTarget

        return DeltaTarget(
            *_place(table), snapshots=self._snapshots, stores=self._stores, beside_spark=self._job.sink.single_driver
        )

    def check_fit(self, table: str, rows: SinkSchema, run_id: str) -> bool:
        from kseg.etl.tables.delta.shape import corrected
        from kseg.etl.tables.delta.table import table_schema
        from kseg.etl.tables.parquet.align import align, new_table

        asked, access, merge = self._job.sink.partition_columns, self.access(table), self._job.adds_columns
        now = access.look()
        if now is None:
            new_table(rows, asked, table=table)
        elif corrected(access, now, rows, asked, merge=merge, run_id=run_id) is None:
            partitioned = now.metadata().partition_columns
            align(rows, table_schema(now), partitioned, table=table, asked_partition_by=asked, merge_schema=merge)
        return True

    def maintenance(self, table: str, access: DeltaAccess, *, because: str = "") -> DeltaMaintenance:
        from kseg.etl.tables.delta.maintenance import DeltaMaintenance

        return DeltaMaintenance(self.target(table), self._stores)

    def access(self, table: str) -> DeltaAccess:
        """The table, which has a location, to read it; it need not exist."""
        return DeltaAccess(*_place(table), snapshots=self._snapshots)

    def _widens(self, access: DeltaAccess, rows: SinkSchema) -> bool:
        there = access.schema() if self._job.sink.widen else None
        if there is None:
            return False
        from kseg.etl.tables.parquet.align import fits

        return any(found and found.widened for _, _, found in fits(rows, there))


def _place(table: str) -> tuple[str, Mapping[str, str] | None]:
    """The location of a table, and the options of its store."""
    found = resolve(table)
    assert found.location is not None
    return found.location, found.credentials or None
