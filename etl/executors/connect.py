"""The executor of a Spark Connect session, where there is no SparkContext:

    session.range(n).mapInArrow(read -> Arrow steps -> write)         a row for some tasks: results, outputs

The rows are the result of the query, so Spark itself drops those of attempts that did not succeed: the account is as
exact as with an RDD's results. The server reports how many tasks have ended while the query runs; how many records,
only at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.executors.port import Read
from kseg.etl.spark.dataframe import attempt_of_task
from kseg.etl.tables.spark_session import slices_of_a_range
from kseg.etl.tasks.packs import TaskResult, land_packs, results_of
from kseg.etl.telemetry.events import ReadProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LANDED = "tasks array<int>, attempt bigint, range_results array<string>, outputs binary"


class ConnectExecutor:
    """Runs packs as tasks of a Connect server."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @cached_property
    def parallelism(self) -> int:
        return slices_of_a_range(self._session)

    def run(self, read: Read) -> tuple[TaskResult, ...]:
        plan = read.packs(self.parallelism if read.tasks else 1)
        if not read.tasks:
            return ()
        write = read.write

        def land(indexes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = (index for batch in indexes for index in batch.column(0).to_pylist())
            for done, attempt, range_results, outputs in land_packs(plan, write, numbers, attempt_of_task()):
                yield pa.RecordBatch.from_pydict(
                    {
                        "tasks": pa.array([done], pa.list_(pa.int32())),
                        "attempt": pa.array([attempt], pa.int64()),
                        "range_results": pa.array([range_results], pa.list_(pa.string())),
                        "outputs": pa.array([outputs], pa.binary()),
                    }
                )

        packs = len(plan.packs)
        query = self._session.range(0, packs, 1, packs).mapInArrow(land, _LANDED)
        with _watched(self._session, packs, read.on_progress), plan.transport.opening():
            rows = query.collect()
        found = ((row["tasks"], row["attempt"], row["range_results"], row["outputs"]) for row in rows)
        results = results_of(read.tasks, found)
        if read.on_progress is not None:
            range_results = [range_result for result in results for range_result in result.range_results]
            read.on_progress(
                ReadProgress(
                    tasks=len(read.tasks),
                    tasks_done=len(read.tasks),
                    offsets=sum(o.end - o.start for o in range_results),
                    rows=sum(o.data for o in range_results),
                    bytes=sum(o.bytes for o in range_results),
                    ended=tuple(range_results),
                )
            )
        return results


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
