"""`etl.spark.dataframe.fused` where there is no SparkContext: over a Spark Connect session.

    session.range(n).mapInArrow(read -> Arrow steps -> write)         a row for some tasks: results, outputs

The rows are the result of the query, so Spark itself drops those of attempts that did not win: the account is as exact
as with an RDD's results. The server reports how many tasks have ended while the query runs; how many records, only
at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.deferred_secrets import TaskOrigin
from kseg.etl.source.packing import NO_ROUTES, Routes
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.dataframe import NOTHING_BESIDE, Beside, Plan, TaskResult, Write, land_packs, results_of
from kseg.etl.telemetry.events import ReadProgress
from kseg.etl.transform.transform import BatchSteps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LANDED = "tasks array<int>, attempt bigint, range_results array<string>, outputs binary"


class RemoteWorkers:
    """The workers of a Connect server, in place of a SparkContext."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @cached_property
    def defaultParallelism(self) -> int:  # noqa: N802
        """As many slices as Spark gives a range of its own accord."""
        numbers = self.session.range(0, 1 << 16).selectExpr("spark_partition_id() AS slice")
        return int(numbers.selectExpr("max(slice) AS last").collect()[0]["last"]) + 1


def fused_remote(
    workers: RemoteWorkers,
    tasks: Sequence[RangeTask],
    origin: TaskOrigin,
    options: DecodeOptions,
    steps: BatchSteps,
    write: Write,
    *,
    beside: Beside = NOTHING_BESIDE,
    routes: Routes = NO_ROUTES,
    on_progress: Callable[[ReadProgress], None] | None = None,
) -> tuple[TaskResult, ...]:
    """As `etl.spark.dataframe.fused`; its errors as well, and what Connect raises where the server is gone."""
    cores = workers.defaultParallelism if tasks else 1
    plan = Plan.of(tasks, origin, options, steps, beside, routes=routes, mixed=True, cores=cores)
    if not tasks:
        return ()

    def land(indexes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (index for batch in indexes for index in batch.column(0).to_pylist())
        for done, attempt, range_results, outputs in land_packs(plan, write, numbers, _ignore):
            yield pa.RecordBatch.from_pydict(
                {
                    "tasks": pa.array([done], pa.list_(pa.int32())),
                    "attempt": pa.array([attempt], pa.int64()),
                    "range_results": pa.array([range_results], pa.list_(pa.string())),
                    "outputs": pa.array([outputs], pa.binary()),
                }
            )

    packs = len(plan.packs)
    query = workers.session.range(0, packs, 1, packs).mapInArrow(land, _LANDED)
    with _watched(workers.session, packs, on_progress), plan.transport.opening():
        rows = query.collect()
    results = results_of(tasks, ((row["tasks"], row["attempt"], row["range_results"], row["outputs"]) for row in rows))
    if on_progress is not None:
        range_results = [range_result for result in results for range_result in result.range_results]
        on_progress(
            ReadProgress(
                tasks=len(tasks),
                tasks_done=len(tasks),
                offsets=sum(o.end - o.start for o in range_results),
                rows=sum(o.data for o in range_results),
                bytes=sum(o.bytes for o in range_results),
                ended=tuple(range_results),
            )
        )
    return results


def _ignore(attempt: object, range_result: object) -> None:
    """The tasks' results carry the same."""


@contextmanager
def _watched(session: SparkSession, tasks: int, listener: Callable[[ReadProgress], None] | None) -> Iterator[None]:
    if listener is None:
        yield
        return

    def report(stages: Iterable[Any] | None, **_: Any) -> None:
        done = sum(stage.num_completed_tasks for stage in stages or ())
        listener(ReadProgress(tasks, min(done, tasks), offsets=0, rows=0, bytes=0))

    remote: Any = session
    remote.registerProgressHandler(report)
    try:
        yield
    finally:
        remote.removeProgressHandler(report)
