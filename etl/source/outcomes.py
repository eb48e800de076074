"""The outcomes of a read's tasks, gathered in the driver.

A DataFrame's rows say nothing of control records, gaps and lag, so each task adds its `RangeOutcome` to an
accumulator. Spark may run a task more than once (a retry, a lost shuffle file, a second action on the DataFrame), and a
plain sum would count it twice. So the accumulator is a map from (task, attempt) to outcome. Attempts of one task must
agree: where they do, it does not matter which of them fed the output; where they do not, nobody can tell.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from etl.source.carrier import Carrier
from etl.source.errors import OutcomesDisagree, OutcomesIncomplete
from etl.source.outcome import RangeOutcome
from etl.source.tasks import RangeTask

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

Attempts = dict[tuple[int, int], RangeOutcome]
"""By task index and Spark's task attempt id, which no other attempt in the session has."""


class MergedAttempts(AccumulatorParam[Attempts]):
    """Adds maps up by key. Picklable: workers add to a map of their own."""

    def zero(self, value: Attempts) -> Attempts:
        return {}

    def addInPlace(self, value1: Attempts, value2: Attempts) -> Attempts:  # noqa: N802
        value1.update(value2)
        return value1


def new_accumulator(context: SparkContext) -> Accumulator[Attempts]:
    """An accumulator for the tasks of one read."""
    return context.accumulator({}, MergedAttempts())


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far a read is; a task counts when it has ended. rows: records decoded; bytes: fetched."""

    tasks: int
    tasks_done: int
    rows: int
    bytes: int


class Outcomes:
    """What the tasks of one read have told so far."""

    def __init__(self, tasks: Sequence[RangeTask], accumulator: Accumulator[Attempts], carrier: Carrier) -> None:
        self.tasks = tuple(tasks)
        self._accumulator = accumulator
        self._carrier = carrier

    def typed_errors(self) -> AbstractContextManager[None]:
        """Around a Spark action on the rows: a worker's error is raised as what it is, Spark's exception its cause."""
        return self._carrier.opening()

    def progress(self) -> ReadProgress:
        """As of the tasks that have ended."""
        # Copied in one step of the interpreter, since results go on coming in while this is called from a thread.
        done = {index: outcome for (index, _), outcome in self._accumulator.value.copy().items()}
        return ReadProgress(
            len(self.tasks), len(done), sum(o.data for o in done.values()), sum(o.bytes for o in done.values())
        )

    def resolve(self) -> tuple[RangeOutcome, ...]:
        """One outcome for each task, in the order of the tasks. Call it after the action that read the rows.

        Raises:
            OutcomesIncomplete: a task has not told (its rows were not read to the end, or the action failed).
            OutcomesDisagree: attempts of one task read different things.
        """
        found: dict[int, RangeOutcome] = {}
        for (index, _), outcome in sorted(self._accumulator.value.items()):
            known = found.setdefault(index, outcome)
            if known.what_was_read != outcome.what_was_read:
                told = f"two attempts of the task for {self.tasks[index]} read different things"
                raise OutcomesDisagree(told, **_address(self.tasks[index]))
        for task in self.tasks:
            if task.index not in found:
                raise OutcomesIncomplete(f"the task for {task} has not told what it read", **_address(task))
        return tuple(found[task.index] for task in self.tasks)


def _address(task: RangeTask) -> dict[str, Any]:
    return {"topic": task.topic, "partition": task.partition, "offset": task.start}


@contextmanager
def watched(outcomes: Outcomes, listener: Callable[[ReadProgress], None] | None, every: float = 0.5) -> Iterator[None]:
    """Tell the listener from a thread, `every` so many seconds and once at the end, while an action runs."""
    if listener is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every):
            listener(outcomes.progress())

    thread = threading.Thread(target=watch, name="kseg-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        listener(outcomes.progress())
