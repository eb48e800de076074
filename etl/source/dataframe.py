"""Tasks -> rows in Spark, in one of two ways.

    rows    range(n).mapInArrow(read -> Arrow steps)              a DataFrame, for SQL and Python steps
    fused   an RDD of n numbers: read -> Arrow steps -> write     no row crosses to the JVM; file facts come back

A Spark task reads one `RangeTask`, or several where all are small. Outcomes travel with an accumulator (`rows`), or as
the task's result (`fused`), of which Spark takes that of the winning attempt alone. `fused` needs nothing of Spark SQL,
whose start alone (catalog, analyser, generated code) takes longer than a small run: measured cold, 5 of the JVM's 16
seconds of processor time.

Workers import this package by name: it is installed there, or sent with --py-files. The decoder's compiled code is
cached on disk, so a worker's first task costs 0.1 s more, not 0.6 s; where the package lies in a folder that cannot be
written (--py-files), set NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.errors import ConfigurationError
from etl.source.arrow_steps import ArrowSteps, Function
from etl.source.carrier import Carrier
from etl.source.errors import OutcomesIncomplete
from etl.source.logs import Origin
from etl.source.outcome import RangeOutcome
from etl.source.outcomes import Attempts, Outcomes, ReadProgress, new_accumulator, watched
from etl.source.reader import DecodeOptions, Keep, RangeReader, read_range
from etl.source.tasks import RangeTask

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Steps = ArrowSteps | Sequence[str | Function]


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """Who is writing: the task and Spark's attempt at it.

    attempt_id: unique in the Spark application; attempt_number: 0 for the first attempt at this task in its stage.
    schema: of the rows, also where there are none.
    """

    task: RangeTask
    attempt_id: int
    attempt_number: int
    schema: pa.Schema


Write = Callable[[Iterator[pa.RecordBatch], TaskAttempt], Iterator[pa.RecordBatch]]
"""Consumes all rows of a task and gives batches of facts about what it wrote. Picklable; called in the worker."""


OpenKeep = Callable[[RangeTask, int], Keep]
"""Where one attempt (Spark's id of it) at a task puts the bytes of damage. Picklable; called in the worker."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What the winning attempt of one task read and wrote."""

    task: RangeTask
    attempt_id: int
    outcome: RangeOutcome
    facts: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True)
class _Plan:
    """What every worker of a read needs. Picklable."""

    tasks: tuple[RangeTask, ...]
    origin: Origin
    options: DecodeOptions
    steps: ArrowSteps
    schema: pa.Schema
    keep: OpenKeep | None = None
    carrier: Carrier = field(default_factory=Carrier)

    @classmethod
    def of(
        cls,
        tasks: Sequence[RangeTask],
        origin: Origin,
        options: DecodeOptions,
        steps: Steps,
        keep: OpenKeep | None = None,
    ) -> _Plan:
        for index, task in enumerate(tasks):
            if task.index != index:
                raise ValueError(f"task {task} is number {index} and says that it is {task.index}")
        arrow_steps = ArrowSteps.of(steps)
        return cls(tuple(tasks), origin, options, arrow_steps, output_schema(options, arrow_steps), keep)

    def attempts(self, indexes: Iterable[int]) -> Iterator[TaskAttempt]:
        """In a worker: the tasks that Spark wants done there."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("this runs in a Spark task only")
        for index in indexes:
            yield TaskAttempt(self.tasks[index], context.taskAttemptId(), context.attemptNumber(), self.schema)


class _Reading:
    """Rows of one task after the Arrow steps; afterwards its outcome."""

    def __init__(self, plan: _Plan, attempt: TaskAttempt) -> None:
        self._plan = plan
        self._keep = plan.keep(attempt.task, attempt.attempt_id) if plan.keep is not None else None
        self._reader: RangeReader = read_range(attempt.task, plan.origin, plan.options, self._keep)
        self._rows_out = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows()
        except BaseException:
            if self._keep is not None:
                self._keep.abort()
            raise

    def _rows(self) -> Iterator[pa.RecordBatch]:
        plan, task = self._plan, self._reader.task
        if not plan.steps:
            yield from self._reader
            return
        for batch in self._reader:
            address = {"topic": task.topic, "partition": task.partition, "offset": batch.column("offset")[0].as_py()}
            out = plan.steps.apply(batch, plan.schema, address)
            self._rows_out += out.num_rows
            if out.num_rows:
                yield out

    @property
    def outcome(self) -> RangeOutcome:
        outcome = self._reader.outcome
        return replace(outcome, rows_out=self._rows_out) if self._plan.steps else outcome


def output_schema(options: DecodeOptions, arrow_steps: Steps = ()) -> pa.Schema:
    """The schema of the rows after the Arrow steps.

    Raises:
        ConfigurationError: a step cannot be loaded or does not work on a batch without rows.
    """
    return ArrowSteps.of(arrow_steps).schema(options.schema)


def spark_schema(schema: pa.Schema) -> StructType:
    """As Spark's types. Raises ConfigurationError for a type that Spark does not have."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema)
    except PySparkException as error:
        raise ConfigurationError.of(
            "transform", f"an Arrow step gives a type that Spark does not have: {error}"
        ) from error


def rows(
    spark: SparkSession,
    tasks: Sequence[RangeTask],
    origin: Origin,
    options: DecodeOptions,
    arrow_steps: Steps = (),
    keep: OpenKeep | None = None,
) -> tuple[DataFrame, Outcomes]:
    """The records of all tasks as a DataFrame; nothing is read before an action asks for it.

    options.limits.max_rows: 4,000 to 10,000 suit the crossing to the JVM best. keep: see `read_range`.

    Raises:
        ConfigurationError: the Arrow steps.
    """
    plan = _Plan.of(tasks, origin, options, arrow_steps, keep)
    accumulator = new_accumulator(spark.sparkContext)
    outcomes = Outcomes(plan.tasks, accumulator, plan.carrier)
    schema = spark_schema(plan.schema)
    if not plan.tasks:
        return spark.createDataFrame([], schema), outcomes

    def read(indexes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _read(plan, accumulator, indexes)

    one_slice_a_task = spark.range(0, len(plan.tasks), 1, len(plan.tasks))
    return one_slice_a_task.mapInArrow(read, schema), outcomes


def _read(
    plan: _Plan, accumulator: Accumulator[Attempts], indexes: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with plan.carrier.packing():
        for attempt in plan.attempts(index for batch in indexes for index in batch.column(0).to_pylist()):
            reading = _Reading(plan, attempt)
            yield from reading
            accumulator.add({(attempt.task.index, attempt.attempt_id): reading.outcome})
    _spare_the_collector()


def fused(
    context: SparkContext,
    tasks: Sequence[RangeTask],
    origin: Origin,
    options: DecodeOptions,
    arrow_steps: Steps,
    write: Write,
    *,
    keep: OpenKeep | None = None,
    on_progress: Callable[[ReadProgress], None] | None = None,
) -> tuple[TaskResult, ...]:
    """Read, transform and write each task in one Spark task; the results of the winning attempts, in task order.

    write: must read its rows to the end; an attempt that fails or loses leaves its files behind.
    keep: see `read_range`.
    on_progress: called from a thread while the tasks run.

    Raises:
        ConfigurationError: the Arrow steps.
        KsegError, KafkaError, RecordFormatError: what the tasks raised (see `RangeReader`).
        OutcomesIncomplete: Spark gave no result for a task.
    """
    plan = _Plan.of(tasks, origin, options, arrow_steps, keep)
    if not plan.tasks:
        return ()
    accumulator = new_accumulator(context)

    def land(indexes: Iterable[int]) -> Iterator[_Landed]:
        return _land(plan, write, accumulator, indexes)

    landed = context.range(len(plan.tasks), numSlices=_slices(plan.tasks)).mapPartitions(land)
    outcomes = Outcomes(plan.tasks, accumulator, plan.carrier)
    with watched(outcomes, on_progress), outcomes.typed_errors():
        results = {index: (attempt, outcome, facts) for index, attempt, outcome, facts in landed.collect()}
    missing = [task for task in plan.tasks if task.index not in results]
    if missing:
        raise OutcomesIncomplete(f"Spark gave no result for {len(missing)} tasks, the first of which is {missing[0]}")
    return tuple(_result(task, *results[task.index]) for task in plan.tasks)


SMALL = 4096


def _slices(tasks: Sequence[RangeTask]) -> int:
    """How many Spark tasks: one a range, but fewer where all of them together are small.

    A worker that has to be started costs more than reading a hundred thousand records; a few thousand are not worth it.
    """
    return max(1, min(len(tasks), sum(task.length for task in tasks) // SMALL))


_Landed = tuple[int, int, str, bytes | None]
"""Task index, attempt id, outcome as JSON, facts as an Arrow stream: nothing in it depends on our classes' layout."""


def _result(task: RangeTask, attempt: int, outcome: str, facts: bytes | None) -> TaskResult:
    batches = () if facts is None else tuple(pa.ipc.open_stream(facts))
    return TaskResult(task, attempt, RangeOutcome.from_json(json.loads(outcome)), batches)


def _land(plan: _Plan, write: Write, accumulator: Accumulator[Attempts], indexes: Iterable[int]) -> Iterator[_Landed]:
    with plan.carrier.packing():
        for attempt in plan.attempts(indexes):
            reading = _Reading(plan, attempt)
            facts = list(write(iter(reading), attempt))
            outcome = reading.outcome
            accumulator.add({(attempt.task.index, attempt.attempt_id): outcome})
            yield attempt.task.index, attempt.attempt_id, json.dumps(outcome.to_json()), _stream(facts)
    _spare_the_collector()


@cache
def _spare_the_collector() -> None:
    """At the end of a worker's first task: what is loaded by then stays, and the collector need not look at it again.

    Spark's daemon collects garbage after every task, and walking the 150,000 objects of the compiler's library takes
    50 ms, a third of what a small task costs.
    """
    gc.freeze()


def _stream(batches: list[pa.RecordBatch]) -> bytes | None:
    if not batches:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())
