"""Packs of tasks in a worker, whatever executor started it: fetch, decode, Arrow steps, write.

A pack is one `RangeTask`, or several small ones (`etl.source.packing`), whose rows are written to the same files. Range
results are returned with the outputs of the write; the executor uses only those of the successful attempt.

Workers import this package by name: it is installed there, or sent with --py-files (`kseg package`). The decoder's
compiled code is cached on disk: a worker's first task loads it in 0.1 s; compiling takes 16 s of one core.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.payload import in_parts
from kseg.etl.source.cost import Meter, TaskCost
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.deferred_secrets import TaskOrigin, opened
from kseg.etl.source.errors import OutOfMemoryError, RangeResultsIncomplete
from kseg.etl.source.held_records import HeldReader, HeldRecords
from kseg.etl.source.packing import Routes, packed
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tables.parquet.side_table import DeadLetterTable, TaskFiles
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.transform.topics import TopicRows, rows_by_topic
from kseg.etl.transform.transform import BatchSteps

if TYPE_CHECKING:
    from kseg.etl.source.reader import Keep, RangeReader


class AttemptNumbers(NamedTuple):
    """An attempt at a pack. id: unique among the executor's attempts. number: 0 for the first one at this pack."""

    id: int
    number: int


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The tasks whose rows are written together, and the executor's attempt that writes them.

    attempt_id: unique among the attempts of an executor; attempt_number: 0 for the first attempt at these tasks.
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


Source = TaskOrigin | HeldRecords
"""The source of a read's records: logs, or the driver's memory."""

OpenReader = Callable[[RangeTask, "Keep | None"], "RangeReader | HeldReader"]
"""Makes the reader of one task's records."""

OpenKeep = Callable[[RangeTask, int], "Keep"]
"""Opens the place for the bytes of damage of one attempt (by its id) at a task. Picklable; called in the worker."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The additional tables to which tasks write. Picklable.

    keep: for damaged bytes. dead_letters: for records that cannot be decoded; None: these are only counted.
    most_nulled: how many records of the run may have nulls in place of what cannot be decoded; None: any number.
    """

    keep: OpenKeep | None = None
    dead_letters: DeadLetterTable | None = None
    most_nulled: int | None = None


NOTHING_BESIDE: Final = Beside()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of the successful attempt at some tasks: one range result for each task, and the written files."""

    tasks: tuple[RangeTask, ...]
    attempt_id: int
    range_results: tuple[RangeResult, ...]
    outputs: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True)
class PackPlan:
    """The packs of a read, and the data that every worker needs for them. Picklable."""

    packs: tuple[tuple[RangeTask, ...], ...]
    routes: Routes
    source: Source
    options: DecodeOptions
    steps: BatchSteps
    rows: Mapping[str, TopicRows]
    beside: Beside = NOTHING_BESIDE
    transport: ErrorTransport = field(default_factory=ErrorTransport)

    @classmethod
    def of(
        cls,
        tasks: Sequence[RangeTask],
        source: Source,
        options: DecodeOptions,
        steps: BatchSteps,
        beside: Beside = NOTHING_BESIDE,
        *,
        routes: Routes,
        mixed: bool,
        cores: int,
        topics: Collection[str] = (),
    ) -> PackPlan:
        """mixed: a pack may have rows of several tables; else all rows have one schema. topics: beside the tasks', such
        as have a part in that schema."""
        for index, task in enumerate(tasks):
            if task.index != index:
                raise ValueError(f"task {task} is number {index} and says that it is {task.index}")
        packs = packed(tasks, cores=cores, routes=routes, mixed=mixed)
        in_turn = tuple(tuple(sorted(pack, key=lambda task: routes.get(task.topic, 0))) for pack in packs)
        tables = {topic: routes.get(topic) if mixed else None for topic in [*(t.topic for t in tasks), *topics]}
        return cls(in_turn, routes, source, options, steps, rows_by_topic(steps, options.schema, tables), beside)

    def readings(self, packs: Iterable[int], attempt: AttemptNumbers) -> Iterator[tuple[TaskAttempt, list[TaskReader]]]:
        """In a worker: the tasks of these packs, table by table; read each to its end before the next."""
        for number in packs:
            pack = self.packs[number]
            with self._readers(pack) as reader:
                for _, alike in groupby(pack, key=lambda task: self.routes.get(task.topic)):
                    tasks = tuple(alike)
                    of_tasks = TaskAttempt(tasks, attempt.id, attempt.number, self.rows[tasks[0].topic].schema)
                    yield of_tasks, [TaskReader(self, reader, task, of_tasks) for task in tasks]

    def _readers(self, pack: Sequence[RangeTask]) -> AbstractContextManager[OpenReader]:
        if isinstance(self.source, HeldRecords):
            return nullcontext(self.source.reader)
        from kseg.etl.source.reader import readers  # with the decoder's compiler, which no driver needs

        return readers(pack, opened(self.source), self.options)


class TaskReader:
    """Reads the rows of one task after the Arrow steps; then it has the task's result."""

    def __init__(self, plan: PackPlan, reader: OpenReader, task: RangeTask, attempt: TaskAttempt) -> None:
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
        most = letters.most if letters is not None else None
        self._bad_records = BadRecords(self._letters, most, beside.most_nulled)
        self._kept: tuple[str, ...] = ()
        self._reader = reader(task, self._keep)
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
                range_result,
                decoded=bad.counts,
                routed=routed,
                dead_examples=tuple(bad.dead_examples),
                nulled_examples=tuple(bad.nulled_examples),
                kept=kept,
            )
        return replace(range_result, rows_out=self._rows_out) if steps else range_result


_TASKS_SHOWN: Final = 3


class PackOutput(NamedTuple):
    """What a worker returns for some tasks: plain values, which need none of our classes.

    tasks: their indexes. range_results: as JSON. outputs: an Arrow stream.
    """

    tasks: list[int]
    attempt: int
    range_results: list[str]
    outputs: bytes | None


def results_of(
    tasks: Sequence[RangeTask], landed: Iterable[tuple[list[int], int, list[str], bytes | None]]
) -> tuple[TaskResult, ...]:
    """The results of the successful attempts at these tasks. Raises RangeResultsIncomplete."""
    results = tuple(_result(tasks, *output) for output in landed)
    missing = {task.index for task in tasks}.difference(task.index for result in results for task in result.tasks)
    if missing:
        first = tasks[min(missing)]
        raise RangeResultsIncomplete(f"there is no result for {len(missing)} tasks, the first of which is {first}")
    return results


def _result(
    tasks: Sequence[RangeTask], done: list[int], attempt: int, range_results: list[str], outputs: bytes | None
) -> TaskResult:
    batches = () if outputs is None else tuple(pa.ipc.open_stream(outputs))
    read = tuple(RangeResult.from_json(json.loads(text)) for text in range_results)
    return TaskResult(tuple(tasks[index] for index in done), attempt, read, batches)


def _one_after_another(readings: Sequence[TaskReader]) -> Iterator[pa.RecordBatch]:
    for reading, following in zip_longest(readings, readings[1:]):
        yield from reading
        if following is not None:
            reading.gives_way()


def land_packs(
    plan: PackPlan,
    write: Write,
    packs: Iterable[int],
    attempt: AttemptNumbers,
    report: Callable[[TaskAttempt, RangeResult], None] | None = None,
) -> Iterator[PackOutput]:
    """In a worker: `run_packs` for the packs that the executor assigned to it.

    Raises TransportedError, whatever went wrong.
    """
    with plan.transport.packing():
        yield from run_packs(plan, write, packs, attempt, report)
    spare_the_collector()


def run_packs(
    plan: PackPlan,
    write: Write,
    packs: Iterable[int],
    attempt: AttemptNumbers,
    report: Callable[[TaskAttempt, RangeResult], None] | None = None,
) -> Iterator[PackOutput]:
    """Read and write packs, in one attempt.

    report: called with each range result before the outputs are given.
    """
    for of_tasks, readings in plan.readings(packs, attempt):
        try:
            outputs = list(write(_one_after_another(readings), of_tasks))
        except MemoryError as error:  # of the reading it would be typed
            tasks = ", ".join(map(str, of_tasks.tasks[:_TASKS_SHOWN]))
            first = of_tasks.tasks[0]
            raise OutOfMemoryError(
                f"while rows of {tasks} were written",
                error,
                topic=first.topic,
                partition=first.partition,
                offset=first.start,
            ) from error
        range_results = [reading.result for reading in readings]
        if report is not None:
            for range_result in range_results:
                report(of_tasks, range_result)
        texts = [json.dumps(range_result.to_json()) for range_result in range_results]
        yield PackOutput([task.index for task in of_tasks.tasks], attempt.id, texts, _stream(outputs))


@cache
def spare_the_collector() -> None:
    """At the end of a worker's first task, exclude all existing objects from garbage collection.

    Spark's daemon of Python workers collects garbage after every task. Traversing the 150,000 objects of the compiler's
    library takes 50 ms, a third of the time of a small task.
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
