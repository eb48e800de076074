"""The executor of a SparkContext: an RDD with one number for each pack; no row crosses to the JVM.

Range results and outputs are the tasks' results, of which Spark keeps those of the successful attempts. Spark SQL is
not used, because starting it (catalog, analyser, generated code) takes longer than a small run: measured cold, 5 of the
JVM's 16 seconds of processor time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kseg.etl.executors.port import Read
from kseg.etl.source.range_result import RangeResult
from kseg.etl.spark.dataframe import attempt_of_task
from kseg.etl.tasks.packs import PackOutput, TaskAttempt, TaskResult, land_packs, results_of
from kseg.etl.tasks.range_results import RangeResults, watched

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkExecutor:
    """Runs packs as Spark tasks."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        return self._context.defaultParallelism

    def run(self, read: Read) -> tuple[TaskResult, ...]:
        from kseg.etl.spark.accumulator import new_accumulator  # loads pyspark

        plan = read.packs(self.parallelism)
        if not read.tasks:
            return ()
        accumulator, write = new_accumulator(self._context), read.write

        def report(attempt: TaskAttempt, range_result: RangeResult) -> None:
            accumulator.add({(range_result.index, attempt.attempt_id): range_result})

        def land(packs: Iterable[int]) -> Iterator[PackOutput]:
            return land_packs(plan, write, packs, attempt_of_task(), report)

        landed = self._context.range(len(plan.packs), numSlices=len(plan.packs)).mapPartitions(land)
        range_results = RangeResults(read.tasks, accumulator, plan.transport)
        with watched(range_results, read.on_progress), range_results.typed_errors():
            found = landed.collect()
        return results_of(read.tasks, found)
