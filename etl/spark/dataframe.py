"""Tasks -> rows in Spark, in one of two ways.

    rows    range(n).mapInArrow(read -> Arrow steps)              a DataFrame, for SQL and Python steps
    fused   an RDD of n numbers: read -> Arrow steps -> write     no row crosses to the JVM; file outputs come back

A Spark task reads one `RangeTask`, or several small ones (`etl.source.packing`), whose rows are written to the same
files. Range results are sent with an accumulator (`rows`), or as the task's result (`fused`); Spark uses only the
result of the successful attempt. `fused` does not use Spark SQL, because starting it (catalog, analyser, generated
code) takes longer than a small run: measured cold, 5 of the JVM's 16 seconds of processor time.

Workers import this package by name: it is installed there, or sent with --py-files (`kseg package`). The decoder's
compiled code is cached on disk: a worker's first task loads it in 0.1 s; compiling takes 16 s of one core.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.payload import in_parts
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.brokers.prefetch_many import RangesTogether
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.deferred_secrets import TaskOrigin, opened
from kseg.etl.source.errors import OutOfMemoryError, RangeResultsIncomplete
from kseg.etl.source.origin import Origin
from kseg.etl.source.packing import NO_ROUTES, Routes, packed
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.error_transport import ErrorTransport
from kseg.etl.spark.narrowing import Crossing
from kseg.etl.spark.range_results import RangeResults, ResultAccumulator, new_accumulator, watched
from kseg.etl.tables.parquet.side_table import DeadLetterTable, TaskFiles
from kseg.etl.telemetry.cost import Meter, TaskCost
from kseg.etl.telemetry.events import ReadProgress
from kseg.etl.transform.topics import TopicRows, rows_by_topic
from kseg.etl.transform.transform import NO_STEPS, BatchSteps

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kseg.etl.source.reader import Keep, RangeReader


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The tasks whose rows are written together, and Spark's attempt that writes them.

    attempt_id: unique in the Spark application; attempt_number: 0 for the first attempt at these tasks in their stage.
    schema: the rows' schema, even if there are no rows.
    """

    tasks: tuple[RangeTask, ...]
    attempt_id: int
    attempt_number: int
    schema: pa.Schema

    @property
    def number(self) -> int:
        """A number that is unique among the tasks of the read."""
        return self.tasks[0].index


Write = Callable[[Iterator[pa.RecordBatch], TaskAttempt], Iterator[pa.RecordBatch]]
"""Consumes all rows of its tasks and gives batches of outputs about what it wrote. Picklable; called in the worker."""


OpenKeep = Callable[[RangeTask, int], "Keep"]
"""Where one attempt (Spark's id of it) at a task puts the bytes of damage. Picklable; called in the worker."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The additional tables to which tasks write. Picklable.

    keep: for damaged bytes. dead_letters: for records that cannot be decoded; None: these are only counted.
    """

    keep: OpenKeep | None = None
    dead_letters: DeadLetterTable | None = None


NOTHING_BESIDE: Final = Beside()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of the successful attempt at some tasks: one range result for each task, and the written files."""

    tasks: tuple[RangeTask, ...]
    attempt_id: int
    range_results: tuple[RangeResult, ...]
    outputs: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True)
class Plan:
    """The data that every worker needs for a read. Picklable."""

    packs: tuple[tuple[RangeTask, ...], ...]
    routes: Routes
    origin: TaskOrigin
    options: DecodeOptions
    steps: BatchSteps
    rows: Mapping[str, TopicRows]
    beside: Beside = NOTHING_BESIDE
    transport: ErrorTransport = field(default_factory=ErrorTransport)

    @classmethod
    def of(
        cls,
        tasks: Sequence[RangeTask],
        origin: TaskOrigin,
        options: DecodeOptions,
        steps: BatchSteps,
        beside: Beside = NOTHING_BESIDE,
        *,
        routes: Routes,
        mixed: bool,
        cores: int,
        topics: Collection[str] = (),
    ) -> Plan:
        """mixed: a pack may have rows of several tables; else all rows have one schema. topics: beside the tasks', such
        as have a part in that schema."""
        for index, task in enumerate(tasks):
            if task.index != index:
                raise ValueError(f"task {task} is number {index} and says that it is {task.index}")
        packs = packed(tasks, cores=cores, routes=routes, mixed=mixed)
        in_turn = tuple(tuple(sorted(pack, key=lambda task: routes.get(task.topic, 0))) for pack in packs)
        tables = {topic: routes.get(topic) if mixed else None for topic in [*(t.topic for t in tasks), *topics]}
        return cls(in_turn, routes, origin, options, steps, rows_by_topic(steps, options.schema, tables), beside)

    def readings(self, packs: Iterable[int]) -> Iterator[tuple[TaskAttempt, list[_TaskReader]]]:
        """In a worker: the tasks that Spark assigned, table by table; read each to its end before the next."""
        from pyspark import TaskContext

        from kseg.etl.source.reader import reading_together  # with the decoder's compiler, which no driver needs

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("this runs in a Spark task only")
        for number in packs:
            pack = self.packs[number]
            origin = opened(self.origin)
            with reading_together(pack, origin, self.options) as together:
                for _, alike in groupby(pack, key=lambda task: self.routes.get(task.topic)):
                    tasks = tuple(alike)
                    attempt = TaskAttempt(
                        tasks, context.taskAttemptId(), context.attemptNumber(), self.rows[tasks[0].topic].schema
                    )
                    yield attempt, [_TaskReader(self, origin, task, attempt, together) for task in tasks]


class _TaskReader:
    """Reads the rows of one task after the Arrow steps; then it has the task's result."""

    def __init__(
        self, plan: Plan, origin: Origin, task: RangeTask, attempt: TaskAttempt, together: RangesTogether | None
    ) -> None:
        from kseg.etl.source.reader import read_range

        self._plan = plan
        self._attempt = attempt
        self._meter = Meter(attempt.attempt_number)
        self._cost: TaskCost | None = None
        beside = plan.beside
        self._keep = beside.keep(task, attempt.attempt_id) if beside.keep is not None else None
        letters = beside.dead_letters
        self._letters = (
            TaskFiles(letters.plan, task.index, attempt.attempt_id) if letters is not None and letters.plan else None
        )
        self._bad_records = BadRecords(self._letters, letters.most if letters is not None else None)
        self._kept: tuple[str, ...] = ()
        self._reader: RangeReader = read_range(task, origin, plan.options, self._keep, together)
        self._rows_out = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._meter = Meter(self._attempt.attempt_number)
        try:
            yield from self._rows()
            if self._letters is not None:
                self._kept = self._letters.close()
        except BaseException:
            for files in (self._keep, self._letters):
                if files is not None:
                    files.abort()
            raise

    def _rows(self) -> Iterator[pa.RecordBatch]:
        if not self._plan.steps:
            yield from self._reader
            return
        for batch in self._reader:
            for out in in_parts(batch, self._applied):
                self._rows_out += out.num_rows
                if out.num_rows:
                    yield out

    def _applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        task = self._reader.task
        address = {"topic": task.topic, "partition": task.partition, "offset": batch.column("offset")[0].as_py()}
        try:
            return self._plan.rows[task.topic].apply(batch, address, self._bad_records)
        except MemoryError as error:
            raise OutOfMemoryError("in steps on the batch from this offset on", error, **address) from error

    def gives_way(self) -> None:
        """The next task of the pack begins: costs from now on do not belong to this task."""
        self._cost = self._meter.cost()

    @property
    def result(self) -> RangeResult:
        """The range result and its cost, including writing if it was done in this task. Call it once."""
        range_result = replace(self._reader.result, cost=self._cost or self._meter.cost())
        steps = self._plan.steps
        if steps.decoding:
            bad = self._bad_records
            kept = range_result.kept + self._kept
            routed = bad.routed if steps.routed else None
            range_result = replace(
                range_result, decoded=bad.counts, routed=routed, bad_records=tuple(bad.examples), kept=kept
            )
        return replace(range_result, rows_out=self._rows_out) if steps else range_result


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert a schema to Spark's types. Raises ConfigurationError for a type that Spark does not have."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema)
    except PySparkException as error:
        raise ConfigurationError.of(
            "transform", f"an Arrow step returns a type that Spark does not have: {error}"
        ) from error


def read_rows(
    spark: SparkSession,
    tasks: Sequence[RangeTask],
    origin: TaskOrigin,
    options: DecodeOptions,
    steps: BatchSteps = NO_STEPS,
    beside: Beside = NOTHING_BESIDE,
    gathered: ResultAccumulator | None = None,
    *,
    routes: Routes = NO_ROUTES,
    cores: int | None = None,
    topics: Collection[str] = (),
) -> tuple[ReadRows, RangeResults]:
    """The records of all tasks, for a DataFrame; they are read only when an action needs them.

    options.limits.max_rows: 4,000 to 10,000 are best for the transfer to the JVM.
    gathered: collects range results; None: an accumulator, which needs a session with a SparkContext.
    routes: each partition of the DataFrame has only rows of one table.
    cores: the number of tasks that run at once; None: Spark's number, or unlimited if it is not available.
    topics: other topics than the tasks' whose columns the common schema must include.

    Raises:
        ConfigurationError: the Arrow steps.
    """
    if cores is None:
        cores = spark.sparkContext.defaultParallelism if gathered is None else max(1, len(tasks))
    plan = Plan.of(tasks, origin, options, steps, beside, routes=routes, mixed=False, cores=cores, topics=topics)
    accumulator = gathered if gathered is not None else new_accumulator(spark.sparkContext)
    range_results = RangeResults(tasks, accumulator, plan.transport)
    schema = next((its.schema for its in plan.rows.values()), None) or steps.output_schema(options.schema)
    return ReadRows(spark, plan, accumulator, schema), range_results


@dataclass(frozen=True)
class ReadRows:
    """The records of a plan as a DataFrame. schema: the rows' schema."""

    spark: SparkSession
    plan: Plan
    accumulator: ResultAccumulator
    schema: pa.Schema

    def frame(self, crossing: Crossing | None = None) -> DataFrame:
        """All columns, or those that are sent to the JVM. Raises ConfigurationError for a type that Spark lacks."""
        schema = spark_schema(self.schema if crossing is None else crossing.schema(self.schema))
        plan, accumulator = self.plan, self.accumulator
        if not plan.packs:
            return self.spark.createDataFrame([], schema)

        def kseg_read_ranges(indexes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _read(plan, accumulator, indexes, crossing)

        # The function's name is the node's in a plan, where `etl.transform.plan_warnings` counts it.
        one_slice_a_pack = self.spark.range(0, len(plan.packs), 1, len(plan.packs))
        return one_slice_a_pack.mapInArrow(kseg_read_ranges, schema)


def rows(
    spark: SparkSession,
    tasks: Sequence[RangeTask],
    origin: TaskOrigin,
    options: DecodeOptions,
    steps: BatchSteps = NO_STEPS,
    **more: Any,
) -> tuple[DataFrame, RangeResults]:
    """The records of all tasks as a DataFrame with all columns. Arguments and errors are those of `read_rows`."""
    source, range_results = read_rows(spark, tasks, origin, options, steps, **more)
    return source.frame(), range_results


def _read(
    plan: Plan, accumulator: ResultAccumulator, indexes: Iterator[pa.RecordBatch], crossing: Crossing | None
) -> Iterator[pa.RecordBatch]:
    with plan.transport.packing():
        for attempt, readings in plan.readings(pack for batch in indexes for pack in batch.column(0).to_pylist()):
            for reading in readings:
                yield from reading if crossing is None else map(crossing.apply, reading)
                range_result = reading.result
                accumulator.add({(range_result.index, attempt.attempt_id): range_result})
    _spare_the_collector()


def fused(
    context: SparkContext,
    tasks: Sequence[RangeTask],
    origin: TaskOrigin,
    options: DecodeOptions,
    steps: BatchSteps,
    write: Write,
    *,
    beside: Beside = NOTHING_BESIDE,
    routes: Routes = NO_ROUTES,
    alike: Collection[str] | None = None,
    on_progress: Callable[[ReadProgress], None] | None = None,
) -> tuple[TaskResult, ...]:
    """Read, transform and write the tasks in Spark tasks, small ones together; the successful attempts' results.

    write: must read its rows to the end; failed attempts leave their files behind.
    routes: one call of `write` gets only rows of one table.
    alike: all topics whose rows have a common schema, as in `read_rows`; None: each table has its own schema.
    on_progress: called from a thread while the tasks run.

    Raises:
        ConfigurationError: the Arrow steps.
        KsegError, KafkaError, RecordFormatError: what the tasks raised (see `RangeReader`).
        RangeResultsIncomplete: Spark returned no result for a task.
    """
    cores, mixed = context.defaultParallelism, alike is None
    plan = Plan.of(tasks, origin, options, steps, beside, routes=routes, mixed=mixed, cores=cores, topics=alike or ())
    if not tasks:
        return ()
    accumulator = new_accumulator(context)

    def report(attempt: TaskAttempt, range_result: RangeResult) -> None:
        accumulator.add({(range_result.index, attempt.attempt_id): range_result})

    def land(packs: Iterable[int]) -> Iterator[PackOutput]:
        return land_packs(plan, write, packs, report)

    landed = context.range(len(plan.packs), numSlices=len(plan.packs)).mapPartitions(land)
    range_results = RangeResults(tasks, accumulator, plan.transport)
    with watched(range_results, on_progress), range_results.typed_errors():
        found = landed.collect()
    return results_of(tasks, found)


_TASKS_SHOWN: Final = 3

PackOutput = tuple[list[int], int, list[str], bytes | None]
"""The tasks' indexes, attempt id, range results as JSON, outputs as an Arrow stream; independent of our classes."""


def results_of(tasks: Sequence[RangeTask], landed: Iterable[PackOutput]) -> tuple[TaskResult, ...]:
    """The results of the successful attempts at these tasks. Raises RangeResultsIncomplete."""
    results = tuple(_result(tasks, *output) for output in landed)
    missing = {task.index for task in tasks}.difference(task.index for result in results for task in result.tasks)
    if missing:
        first = tasks[min(missing)]
        raise RangeResultsIncomplete(f"Spark gave no result for {len(missing)} tasks, the first of which is {first}")
    return results


def _result(
    tasks: Sequence[RangeTask], done: list[int], attempt: int, range_results: list[str], outputs: bytes | None
) -> TaskResult:
    batches = () if outputs is None else tuple(pa.ipc.open_stream(outputs))
    read = tuple(RangeResult.from_json(json.loads(text)) for text in range_results)
    return TaskResult(tuple(tasks[index] for index in done), attempt, read, batches)


def _one_after_another(readings: Sequence[_TaskReader]) -> Iterator[pa.RecordBatch]:
    for reading, following in zip_longest(readings, readings[1:]):
        yield from reading
        if following is not None:
            reading.gives_way()


def land_packs(
    plan: Plan, write: Write, packs: Iterable[int], report: Callable[[TaskAttempt, RangeResult], None]
) -> Iterator[PackOutput]:
    """In a worker: read and write the packs of tasks that Spark assigned to it."""
    with plan.transport.packing():
        for attempt, readings in plan.readings(packs):
            try:
                outputs = list(write(_one_after_another(readings), attempt))
            except MemoryError as error:  # of the reading it would be typed
                tasks = ", ".join(map(str, attempt.tasks[:_TASKS_SHOWN]))
                first = attempt.tasks[0]
                raise OutOfMemoryError(
                    f"while rows of {tasks} were written",
                    error,
                    topic=first.topic,
                    partition=first.partition,
                    offset=first.start,
                ) from error
            range_results = [reading.result for reading in readings]
            for range_result in range_results:
                report(attempt, range_result)
            texts = [json.dumps(range_result.to_json()) for range_result in range_results]
            yield [task.index for task in attempt.tasks], attempt.attempt_id, texts, _stream(outputs)
    _spare_the_collector()


@cache
def _spare_the_collector() -> None:
    """At the end of a worker's first task, exclude all existing objects from garbage collection.

    Spark's daemon collects garbage after every task. Traversing the 150,000 objects of the compiler's library takes
    50 ms, a third of the time of a small task.
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
