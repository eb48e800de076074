"""The results of a read's tasks, collected in the driver.

A DataFrame's rows do not show control records, gaps and lag, so each task adds its `RangeResult` to an accumulator.
Spark may run a task more than once (a retry, a lost shuffle file, a second action on the DataFrame), and a plain sum
would count it twice. So the accumulator is a map from (task, attempt) to range result. Attempts of one task must agree:
then it does not matter which of them produced the output. If they differ, it cannot be determined.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, Protocol

from kseg.etl.source.errors import RangeResultsDisagree, RangeResultsIncomplete
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.telemetry.events import ReadProgress

Attempts = dict[tuple[int, int], RangeResult]
"""By task index and Spark's task attempt id, which no other attempt in the session has."""


class ResultAccumulator(Protocol):
    """Carries range results from tasks to the driver: Spark's accumulator, or a substitute."""

    @property
    def value(self) -> Attempts:
        """In the driver: the results so far."""

    def add(self, term: Attempts) -> None:
        """In a worker."""


class CollectedResults:
    """Results that an executor returned to the driver: one by one, or before an action needs their rows."""

    def __init__(self, results: Iterable[RangeResult] = ()) -> None:
        self.value: Attempts = {(result.index, 0): result for result in results}

    def add(self, term: Attempts) -> None:
        self.value.update(term)


class NoAccumulator:
    """For a read whose results are not needed."""

    @property
    def value(self) -> Attempts:
        return {}

    def add(self, term: Attempts) -> None:
        pass


class RangeResults:
    """The results of one read's tasks so far. transport: carries the errors of these tasks, and of others that Spark
    runs for the same action."""

    def __init__(self, tasks: Sequence[RangeTask], accumulator: ResultAccumulator, transport: ErrorTransport) -> None:
        self.tasks = tuple(tasks)
        self._accumulator = accumulator
        self.transport = transport
        self._reported = 0
        self._done: set[int] = set()
        self._offsets = self._rows = self._bytes = 0

    def typed_errors(self) -> AbstractContextManager[None]:
        """Around a Spark action on the rows: a worker's error is raised as what it is, Spark's exception its cause."""
        return self.transport.opening()

    def progress(self) -> ReadProgress:
        """The progress by the tasks that have ended, each in `ended` or `repeated` once. For one thread at a time."""
        # Copied in one step of the interpreter, since results go on coming in while this is called from a thread.
        results = self._accumulator.value.copy()
        ended, repeated = [], []
        # A dictionary keeps its order: new keys come after those that were reported.
        for (index, _), range_result in islice(results.items(), self._reported, None):
            if index in self._done:
                repeated.append(range_result)
                continue
            self._done.add(index)
            ended.append(range_result)
            self._offsets += range_result.end - range_result.start
            self._rows += range_result.data
            self._bytes += range_result.bytes
        self._reported = len(results)
        return ReadProgress(
            tasks=len(self.tasks),
            tasks_done=len(self._done),
            offsets=self._offsets,
            rows=self._rows,
            bytes=self._bytes,
            ended=tuple(ended),
            repeated=tuple(repeated),
        )

    def unread(self) -> tuple[RangeTask, ...]:
        """The tasks without a result: their rows were not read to the end, or the action failed."""
        known = {index for index, _ in self._accumulator.value}
        return tuple(task for task in self.tasks if task.index not in known)

    def resolve(self, counted: Mapping[int, RangeResult] | None = None) -> tuple[RangeResult, ...]:
        """One result for each task, in the order of the tasks. Call it after the action that read the rows.

        counted: results of tasks that were counted otherwise, by their index.

        Raises:
            RangeResultsIncomplete: a task has no result (its rows were not read to the end, or the action failed).
            RangeResultsDisagree: attempts of one task read different things.
        """
        found: dict[int, RangeResult] = dict(counted or {})
        for (index, _), range_result in sorted(self._accumulator.value.items()):
            known = found.setdefault(index, range_result)
            if known.what_was_read != range_result.what_was_read:
                message = f"two attempts of the task for {self.tasks[index]} read different things"
                raise RangeResultsDisagree(message, **_address(self.tasks[index]))
        for task in self.tasks:
            if task.index not in found:
                raise RangeResultsIncomplete(f"the task for {task} has not reported what it read", **_address(task))
        return tuple(found[task.index] for task in self.tasks)


def _address(task: RangeTask) -> dict[str, Any]:
    return {"topic": task.topic, "partition": task.partition, "offset": task.start}


@contextmanager
def watched(
    results: RangeResults, listener: Callable[[ReadProgress], None] | None, every: float = 0.5
) -> Iterator[None]:
    """While an action runs, report progress from a thread every so many seconds, and once at the end."""
    if listener is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every):
            listener(results.progress())

    thread = threading.Thread(target=watch, name="kseg-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        listener(results.progress())
