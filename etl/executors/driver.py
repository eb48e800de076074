"""The executor in the driver's own process: for a redrive's dead letters, which it holds already, and small tables."""

from __future__ import annotations

from typing import Final

from kseg.etl.executors.port import Read
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tasks.packs import AttemptNumbers, TaskAttempt, TaskResult, results_of, run_packs
from kseg.etl.tasks.range_results import CollectedResults, RangeResults, watched


class DriverExecutor:
    """Runs packs one after another, once. Errors are raised as they are."""

    parallelism: Final = 1

    def run(self, read: Read) -> tuple[TaskResult, ...]:
        plan, collected = read.packs(self.parallelism), CollectedResults()

        def report(attempt: TaskAttempt, result: RangeResult) -> None:
            collected.add({(result.index, attempt.attempt_id): result})

        with watched(RangeResults(read.tasks, collected, plan.transport), read.on_progress):
            done = run_packs(plan, read.write, range(len(plan.packs)), AttemptNumbers(0, 0), report)
            return results_of(read.tasks, done)
