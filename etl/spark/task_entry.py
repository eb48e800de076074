"""The last step of a DataFrame that a run lands: a Spark task writes its rows.

A module of its own, since workers load what is named here: the configuration and delta-rs would cost each new worker a
quarter of a second, and no task needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kseg.etl.spark.narrowing import Restoring
from kseg.etl.tables.parquet.writer import LandingPlan, land
from kseg.etl.tasks.error_transport import ErrorTransport


def landing_function(
    plan: LandingPlan, transport: ErrorTransport, restoring: Restoring | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`land` for `DataFrame.mapInArrow(landing_function(plan, transport), TASK_OUTPUT_DDL)`.

    transport: carries its errors to the driver. restoring: makes the rows from what crosses.
    """

    def land_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        rows = batches if restoring is None else map(restoring.apply, batches)
        with transport.packing():
            yield from land(rows, plan, task=task, attempt=attempt)

    return land_partition
