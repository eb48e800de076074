"""Jobs over a run's ranges: one counts their records, one writes rows to data files that are not yet committed.

    transform                      how rows travel
    -----------------------------  --------------------------------------------------------------------------------
    none, or Arrow steps           fused: fetch, decode, steps and Parquet in one task, which no row leaves
    SQL or Python steps that only  the same (`etl.spark.selection`)
    select and rename columns
    other SQL or Python steps      a DataFrame from mapInArrow, the steps, and a last mapInArrow that writes Parquet;
                                   columns that no step uses cross to the JVM as one (`etl.spark.narrowing`)

Counts of what was read return with the tasks' results, or through an accumulator keyed by task and attempt, so that a
task that ran twice counts once (`etl.tasks.packs`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.port import Executor, Read
from kseg.etl.ledger import events as ev
from kseg.etl.run.context import JobContext
from kseg.etl.run.read_options import read_options, read_tasks
from kseg.etl.run.row_counts import TaskRows, rows_of_tasks, rows_read
from kseg.etl.run.schemas import transform_of_run
from kseg.etl.run.sink_rows import batch_schemas, planned_sinks, topics_of
from kseg.etl.source.packing import LARGE, NO_ROUTES, Routes
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.column_use import column_use
from kseg.etl.spark.dataframe import read_rows
from kseg.etl.spark.narrowing import RowSource, narrowed
from kseg.etl.spark.range_result_files import RangeResultFiles
from kseg.etl.spark.selection import Selection, selected
from kseg.etl.spark.task_entry import landing_function
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.task_output import (
    TASK_OUTPUT_DDL,
    TaskOutput,
    WrittenFile,
    read_task_output,
    written_files,
)
from kseg.etl.tables.parquet.writer import LandingPlan
from kseg.etl.tables.values import ReadyTable
from kseg.etl.tasks.packs import NOTHING_BESIDE, Beside, Source, TaskResult, Write
from kseg.etl.tasks.range_results import NoAccumulator, ResultAccumulator, watched
from kseg.etl.tasks.writing import Writer, drop
from kseg.etl.telemetry.events import OutputSchema, ReadProgress, ReadStarted
from kseg.etl.transform.frame_schema import arrow_schema_of
from kseg.etl.transform.plan_warnings import plan_warnings
from kseg.etl.transform.transform import BatchSteps
from kseg.segment_reader.decode.engine import Limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kseg.etl.tasks.range_results import RangeResults

TO_JVM = Limits(max_rows=8_000)
"""Batches that cross to the JVM: 4,000 to 10,000 rows are the fastest there."""


@dataclass(slots=True)
class Written:
    """The result of one job: ranges read and files written. files: by table, empty for a job that only counts. tasks:
    their rows."""

    range_results: tuple[RangeResult, ...] = ()
    files: dict[str, list[WrittenFile]] = field(default_factory=dict)
    tasks: tuple[TaskRows, ...] = ()


def _range_results(results: Iterable[TaskResult]) -> tuple[RangeResult, ...]:
    return tuple(range_result for result in results for range_result in result.range_results)


class RangeJobs:
    """The jobs of one run: reads of the executor that was chosen, or queries of Spark, which is opened when the first
    query needs it."""

    def __init__(self, context: JobContext, plan: ev.RunPlan, beside: Beside = NOTHING_BESIDE) -> None:
        """beside: where tasks write damaged batches and dead letters; without, they only count them."""
        self.context, self.job, self.plan = context, context.job, plan
        self._beside = beside
        self.options = read_options(self.job, plan)
        self.transform = transform_of_run(self.job, plan, context.clients.ledger.known(self.job.name))
        self._offsets_reported = 0
        self._phase = "land"
        self.notes: list[str] = []

    def count(self, ranges: Sequence[ev.PlannedRange]) -> Written:
        """Counts the records of these ranges. Runs the decode step only, if it can set records aside or routes them."""
        if not ranges:
            return Written()
        return Written(range_results=self._count(self._tasks(self._executor(), ranges)))

    def _count(self, tasks: tuple[RangeTask, ...]) -> tuple[RangeResult, ...]:
        # Nothing is written, so topics of one table need not have one schema: each is routed by itself.
        routes = {topic: number for number, topic in enumerate(self._topics)}
        steps = self.transform.on_batches.decoding
        return _range_results(self._fused("count", tasks, steps, drop, routes if steps else NO_ROUTES))

    def sink_schemas(self, tables: Collection[str]) -> dict[str, SinkSchema]:
        """The schema of the rows to land in each of these tables, derived from the transform without reading records.

        Raises:
            ConfigurationError: a step does not work, or its rows cannot be landed.
        """
        if not self.transform.on_frame:
            schemas = batch_schemas(self.job, self.plan, self.transform.on_batches, tables)
        else:
            frame, _ = self.frame(self.context.spark.session(), ())
            schemas = dict.fromkeys(tables, arrow_schema_of(frame))
        made = planned_sinks(self.job, self.plan, self.transform.on_batches, schemas)
        for table, sink in made.items():
            columns = {column.name: str(column.type) for column in sink.columns}
            self.context.progress.event(OutputSchema(table, columns))
        return made

    @property
    def _topics(self) -> dict[str, str]:
        return topics_of(self.plan)

    def frame(
        self, spark: SparkSession, tables: Collection[str], beside: Beside = NOTHING_BESIDE
    ) -> tuple[DataFrame, RangeResults]:
        """The rows of these tables after the whole transform, as a DataFrame that is not evaluated yet."""
        source, range_results = self.source(spark, tables, beside)
        return self._transformed(source, tables), range_results

    def _transformed(self, source: RowSource, tables: Collection[str]) -> DataFrame:
        frame = self.transform.apply_to_frame(source.frame())
        if self.transform.on_frame and tables:
            for warning in plan_warnings(frame):
                self.note(warning)
        return frame

    def source(
        self, spark: SparkSession, tables: Collection[str], beside: Beside = NOTHING_BESIDE
    ) -> tuple[RowSource, RangeResults]:
        """The rows of these tables after the steps on batches."""
        options = replace(self.options, limits=TO_JVM)
        executor = self._executor() if tables else None
        tasks = self._tasks(executor, self.plan.ranges_of(tables)) if executor is not None else ()
        gathered = self._gathered(tables) if self.context.spark.remote else None
        return read_rows(
            spark,
            tasks,
            self.context.clients.task_origin,
            options,
            self.transform.on_batches,
            beside,
            gathered,
            routes=self._tables_of_topics(tables),
            cores=executor.parallelism if executor is not None else 1,
            topics=self._topics_of(tables),
        )

    def _topics_of(self, tables: Collection[str]) -> list[str]:
        """The topics whose rows a DataFrame over these tables may have; of no tables: all."""
        return [t for t, table in self._topics.items() if table in tables or not tables or self.plan.routed]

    def _gathered(self, tables: Collection[str]) -> ResultAccumulator:
        """Over Connect: where tasks write results. Raises ConfigurationError if the table does not exist yet."""
        if not tables:
            return NoAccumulator()
        table = next(iter(tables))
        access = self.context.targets.access(table)
        if access is None:
            raise ConfigurationError.of(
                "sink",
                f"over Spark Connect, {table} has to exist before rows land in it",
                "create it in its catalog",
            )
        return RangeResultFiles(access.location, self.plan.run_id)

    def write(self, sinks: Mapping[str, SinkSchema], tables: Mapping[str, ReadyTable]) -> Written:
        """Read, transform and write the rows of these tables to data files."""
        if not tables:
            return Written()
        plan = self._landing_plan(sinks, tables)
        if self.transform.on_frame:
            return self._write_frame(self.context.spark.session(), plan, tables)
        tasks = self._tasks(self._executor(), self.plan.ranges_of(tables))
        return self._write_fused(plan, tables, tasks)

    def _write_fused(
        self,
        plan: LandingPlan,
        tables: Mapping[str, ReadyTable],
        tasks: tuple[RangeTask, ...],
        selection: Selection | None = None,
    ) -> Written:
        routes = self._tables_of_topics(tables)
        # A selection counts the columns of the query's DataFrame: those of all topics together.
        alike = None if selection is None else self._topics_of(tables)
        results = self._fused(
            "land",
            tasks,
            self.transform.on_batches,
            Writer(plan, selection.apply if selection is not None else None),
            routes,
            alike,
        )
        batches = (batch for result in results for batch in result.outputs)
        outputs = [output for batch in batches for output in read_task_output(batch.to_pylist())]
        read = {result.tasks[0].index: rows_read(result.range_results) for result in results}
        return self._written(_range_results(results), outputs, tables, rows_of_tasks(outputs, read))

    def _fused(
        self,
        name: str,
        tasks: tuple[RangeTask, ...],
        steps: BatchSteps,
        write: Write,
        routes: Routes = NO_ROUTES,
        alike: Collection[str] | None = None,
    ) -> tuple[TaskResult, ...]:
        return self._executor().run(
            Read(
                self._began(name, tasks),
                self._source(tasks),
                self.options,
                write,
                steps,
                self._beside,
                routes,
                alike,
                self._progress,
            )
        )

    def _write_frame(self, spark: SparkSession, plan: LandingPlan, tables: Mapping[str, ReadyTable]) -> Written:
        source, range_results = self.source(spark, tables, self._beside)
        frame = self._transformed(source, tables)
        # A client of Spark Connect has no plan that it could look at: there all columns cross.
        use = None if self.context.spark.remote else column_use(frame)
        if use is not None and (selection := selected(frame, use, source.schema)) is not None:
            return self._write_fused(plan, tables, range_results.tasks, selection)
        narrow = None if use is None else narrowed(frame, use, source)
        frame, restoring = narrow or (frame, None)
        landed = frame.mapInArrow(landing_function(plan, range_results.transport, restoring), TASK_OUTPUT_DDL)
        with self.watching(range_results), range_results.typed_errors():
            outputs = list(read_task_output(landed.collect()))
        resolved = self.complete(range_results)
        self.forget_range_results(tables)
        return self._written(resolved, outputs, tables, rows_of_tasks(outputs))

    def complete(self, range_results: RangeResults) -> tuple[RangeResult, ...]:
        """One result for each task. A separate job without the transform counts the ranges that a query did not
        read to their end (LIMIT, WHERE false, a step that does not use its rows)."""
        unread = range_results.unread()
        if not unread:
            return range_results.resolve()
        offsets = sum(task.length for task in unread)
        self.note(
            f"the transform did not read {len(unread)} of {len(range_results.tasks)} tasks ({offsets} offsets) to their"
            " end, because a step reads only some of its rows (LIMIT, a filter that is always false). A separate Spark "
            "job counted the records that were not read; they count as dropped by the transform"
        )
        renumbered = tuple(replace(task, index=number) for number, task in enumerate(unread))
        counted = self._count(renumbered)
        known = {unread[result.index].index: replace(result, index=unread[result.index].index) for result in counted}
        return range_results.resolve(known)

    def note(self, text: str) -> None:
        """For people, at once and in the run's report."""
        if text not in self.notes:
            self.notes.append(text)
            self.context.progress.message(text)

    def forget_range_results(self, tables: Collection[str]) -> None:
        """Delete the files that tasks wrote their results to, once these are resolved."""
        if self.context.spark.remote and isinstance(files := self._gathered(tables), RangeResultFiles):
            files.clear()

    def _written(
        self,
        range_results: tuple[RangeResult, ...],
        outputs: list[TaskOutput],
        tables: Mapping[str, ReadyTable],
        tasks: tuple[TaskRows, ...],
    ) -> Written:
        by_place = {str(ready.write.location): table for table, ready in tables.items()}
        files: dict[str, list[WrittenFile]] = {table: [] for table in tables}
        for file in written_files(outputs):
            files[by_place[file.table]].append(file)
        return Written(range_results, files, tasks)

    def _landing_plan(self, sinks: Mapping[str, SinkSchema], tables: Mapping[str, ReadyTable]) -> LandingPlan:
        return LandingPlan(
            owner=FileOwner(self.plan.run_id, self.plan.app_version),
            sink=sinks[next(iter(tables))],  # for the address alone, which all tables' rows have in the same columns
            tables=tuple(ready.write for ready in tables.values()),
            routes=self._routes(tables),
            routed=bool(self.plan.routed),
        )

    def _routes(self, tables: Collection[str]) -> Mapping[str, int | None] | None:
        """Topic, or route, to the number of its table; None for all rows of a single table. Rows of routes whose tables
        are not among these come along with the others, as those of their ranges: their tables have landed before."""
        if self.plan.routed:
            numbers = {table: number for number, table in enumerate(tables)}
            return {route: numbers.get(table) for route, table in self.plan.routes.items()}
        return self._tables_of_topics(tables) or None

    def _tables_of_topics(self, tables: Collection[str]) -> Routes:
        """Topic to the number of its table; empty where all rows that are read go the same way."""
        if len(tables) < 2 or self.plan.routed:
            return NO_ROUTES
        numbers = {table: number for number, table in enumerate(tables)}
        topics = {r.topic: r.table for r in self.plan.ranges if r.table in numbers}
        return {topic: numbers[table] for topic, table in topics.items() if table}

    def _executor(self) -> Executor:
        return self.context.engine.executor()

    def _source(self, _tasks: Sequence[RangeTask]) -> Source:
        return self.context.clients.task_origin

    def _tasks(self, executor: Executor, ranges: Sequence[ev.PlannedRange]) -> tuple[RangeTask, ...]:
        # Tasks are not cut below `LARGE` to use idle cores: each task writes a file of its own.
        at_least = max(1, min(executor.parallelism, sum(r.length for r in ranges) // LARGE))
        return read_tasks(self.job, self.context.clients.logs, ranges, self.plan.topics, min_tasks=at_least)

    def watching(self, range_results: RangeResults) -> AbstractContextManager[None]:
        """Around an action on a DataFrame of ours: reports its tasks' progress."""
        self._began("land", range_results.tasks)
        # Over Connect each poll lists the folder that tasks write their results to.
        return watched(range_results, self._progress, every=5 if self.context.spark.remote else 0.5)

    def _began(self, name: str, tasks: tuple[RangeTask, ...]) -> tuple[RangeTask, ...]:
        totals: dict[TopicPartition, int] = {}
        for task in tasks:
            totals[task.tp] = totals.get(task.tp, 0) + task.length
        progress = self.context.progress
        if self._offsets_reported or name != self._phase:
            progress.phase(name)
            self._phase, self._offsets_reported = name, 0
        progress.total(sum(totals.values()), "offsets")
        progress.event(ReadStarted(name, len(tasks), totals))
        return tasks

    def _progress(self, now: ReadProgress) -> None:
        # Called from one thread at a time, with running totals of this job.
        self.context.progress.event(now)
        self.context.progress.advance(now.offsets - self._offsets_reported)
        self._offsets_reported = now.offsets
