"""Delta by Spark: Spark writes and commits rows, to tables at paths and of its catalogs, with all features of Delta."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.job import Job
from kseg.etl.places import literal
from kseg.etl.tables.sinks import Needs, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kseg.etl.tables.delta.table import DeltaAccess
    from kseg.etl.tables.parquet.schema import SinkSchema
    from kseg.etl.tables.spark.maintenance import SparkMaintenance
    from kseg.etl.tables.spark.writer import SparkTarget


class DeltaSparkSink(Sink):
    """See the module's docstring. spark: returns a session that reads and writes Delta."""

    by_spark: ClassVar[bool] = True
    routes: ClassVar[bool] = False

    def __init__(self, job: Job, spark: Callable[[], SparkSession]) -> None:
        self._job, self._spark = job, spark

    def reasons_against(self, table: str, needs: Needs) -> tuple[str, ...]:
        return ("tasks write its files, not Spark",) if needs.beside else ()

    def target(self, table: str) -> SparkTarget:
        from kseg.etl.tables.spark.writer import SparkTarget

        found, single = resolve(table), self._job.sink.single_driver
        if found.location is None:
            return SparkTarget(self._spark, table=table, single_driver=single)
        path, options = literal(found.location), found.credentials or None  # Hadoop decodes nothing
        return SparkTarget(self._spark, path=path, single_driver=single, storage_options=options)

    def check_fit(self, table: str, rows: SinkSchema, run_id: str) -> bool:
        return False  # only Spark's own writer knows

    def maintenance(self, table: str, access: DeltaAccess, *, because: str = "") -> SparkMaintenance:
        from kseg.etl.tables.spark.maintenance import SparkMaintenance

        return SparkMaintenance(access, self.target(table), because=because)
