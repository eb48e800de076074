"""Passes over a run's ranges in Spark: to count what is in them, or to write it as data files that no commit names yet.

    transform                      how rows travel
    -----------------------------  --------------------------------------------------------------------------------
    none, or Arrow steps           fused: fetch, decode, steps and Parquet in one Spark task; no row crosses to the JVM
    SQL or Python steps            a DataFrame from mapInArrow, the steps, and a last mapInArrow that writes Parquet

What a pass read comes back with its tasks' results or through an accumulator that knows attempts, so that a task that
ran twice counts once (`etl.source.dataframe`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from etl.config import Job
from etl.context import JobContext
from etl.in_task import Writer, drop
from etl.landing.facts import FACTS_DDL, Fact, FileFact, files_of, read_facts
from etl.landing.parquet import LandingPlan, TableWrite, landing_function
from etl.landing.quarantine import Quarantine
from etl.landing.schema import SinkSchema, sink_schema
from etl.landing.table import ReadyTable
from etl.ledger import events as ev
from etl.source.dataframe import OpenKeep, fused, output_schema, rows
from etl.source.logs import Logs, Origin
from etl.source.outcome import RangeOutcome
from etl.source.outcomes import ReadProgress
from etl.source.reader import DecodeOptions
from etl.source.tasks import RangeTask
from etl.transform import apply_steps
from segment_reader.decode import Limits

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from etl.source.outcomes import Outcomes

TO_JVM = Limits(max_rows=8_000)
"""Batches that cross to the JVM: 4,000 to 10,000 rows are the fastest there."""

WORTH_A_TASK = 50_000
"""Offsets below which a range is not cut for the sake of idle cores: each task writes a file of its own."""


@dataclass(slots=True)
class Written:
    """What one pass read and wrote. files: by table, none for a pass that only counts."""

    outcomes: tuple[RangeOutcome, ...] = ()
    files: dict[str, list[FileFact]] = field(default_factory=dict)
    rows_out: int = 0


def decode_options(job: Job) -> DecodeOptions:
    """How this job's ranges are read."""
    return DecodeOptions(
        isolation_level=job.source.isolation_level,
        headers=True,
        provenance=job.source.provenance,
        # Without a transform nothing can touch a row's own address.
        addresses=bool(job.transform),
        on_data_loss=job.source.on_data_loss,
        on_corruption=job.source.on_corruption,
    )


def tasks_for(
    job: Job, logs: Logs, plan: ev.RunPlan, tables: Collection[str], parallelism: int
) -> tuple[RangeTask, ...]:
    """The plan's ranges that land in these tables, cut into tasks."""
    ranges = [r for r in plan.ranges if r.table in tables]
    return logs.tasks(
        ranges,
        max_records=job.source.max_records_per_task,
        min_tasks=max(1, min(parallelism, sum(r.length for r in ranges) // WORTH_A_TASK)),
        topics={name: topic.topic_id for name, topic in plan.topics.items()},
    )


class Passes:
    """Passes of one run, in one Spark session that is opened when the first pass needs it."""

    def __init__(self, context: JobContext, plan: ev.RunPlan, quarantine: Quarantine | None = None) -> None:
        """quarantine: where tasks keep what they cannot read; None where they only count it."""
        self.context, self.job, self.plan = context, context.job, plan
        self._keep = quarantine.opened if quarantine is not None else None
        self.options = decode_options(self.job)
        self.steps = tuple(step.arrow for step in self.job.arrow_steps)
        self._told = ReadProgress(0, 0, 0, 0)

    def count(self, tables: Collection[str]) -> Written:
        """Read the ranges of these tables for what is in them; nothing is written and no transform is run."""
        if not tables:
            return Written()
        spark = self.context.spark_context()
        results = fused(
            spark,
            self._tasks(spark, tables),
            self._origin,
            self.options,
            (),
            drop,
            keep=self._keep,
            on_progress=self._progress,
        )
        return Written(outcomes=tuple(result.outcome for result in results))

    def sink_schema(self) -> SinkSchema:
        """What is landed, learnt from the transform without reading anything.

        Raises:
            ConfigurationError: a step does not work, or its rows cannot be landed.
        """
        if not self.job.frame_steps:
            schema = output_schema(self.options, self.steps)
        else:
            from pyspark.sql.pandas.types import to_arrow_schema

            frame, _ = self.frame(self.context.spark(), ())
            schema = to_arrow_schema(frame.schema, timezone="UTC")
        return sink_schema(schema, addresses=self.job.sink.addresses)

    def frame(
        self, spark: SparkSession, tables: Collection[str], keep: OpenKeep | None = None
    ) -> tuple[DataFrame, Outcomes]:
        """The rows of these tables after the whole transform, as a DataFrame that has not been computed."""
        options = replace(self.options, limits=TO_JVM)
        source, outcomes = rows(spark, self._tasks(spark.sparkContext, tables), self._origin, options, self.steps, keep)
        return apply_steps(source, self.job.frame_steps), outcomes

    def write(self, sink: SinkSchema, tables: Mapping[str, ReadyTable]) -> Written:
        """Read, transform and write the rows of these tables to data files."""
        if not tables:
            return Written()
        plan = self._landing_plan(sink, tables)
        if self.job.frame_steps:
            return self._write_frame(self.context.spark(), plan, tables)
        spark = self.context.spark_context()
        results = fused(
            spark,
            self._tasks(spark, tables),
            self._origin,
            self.options,
            self.steps,
            Writer(plan),
            keep=self._keep,
            on_progress=self._progress,
        )
        facts = [fact for result in results for batch in result.facts for fact in read_facts(batch.to_pylist())]
        return self._written(tuple(result.outcome for result in results), facts, tables)

    def _write_frame(self, spark: SparkSession, plan: LandingPlan, tables: Mapping[str, ReadyTable]) -> Written:
        frame, outcomes = self.frame(spark, tables, self._keep)
        landed = frame.mapInArrow(landing_function(plan), FACTS_DDL)
        with outcomes.typed_errors():
            facts = list(read_facts(landed.collect()))
        return self._written(outcomes.resolve(), facts, tables)

    def _written(
        self, outcomes: tuple[RangeOutcome, ...], facts: list[Fact], tables: Mapping[str, ReadyTable]
    ) -> Written:
        by_place = {str(self.context.targets.delta(table).location): table for table in tables}
        files: dict[str, list[FileFact]] = {table: [] for table in tables}
        for file in files_of(facts):
            files[by_place[file.table]].append(file)
        return Written(outcomes, files, sum(file.rows for of_table in files.values() for file in of_table))

    def _landing_plan(self, sink: SinkSchema, tables: Mapping[str, ReadyTable]) -> LandingPlan:
        numbers = {table: number for number, table in enumerate(tables)}
        topics = {r.topic: r.table for r in self.plan.ranges if r.table in tables}
        return LandingPlan(
            run_id=self.plan.run_id,
            sink=sink,
            tables=tuple(
                TableWrite(self.context.targets.delta(table).location, ready.columns, ready.stats)
                for table, ready in tables.items()
            ),
            routes={topic: numbers[table] for topic, table in topics.items() if table} if len(tables) > 1 else None,
        )

    @property
    def _origin(self) -> Origin:
        return self.context.logs.origin

    def _tasks(self, spark: SparkContext, tables: Collection[str]) -> tuple[RangeTask, ...]:
        return tasks_for(self.job, self.context.logs, self.plan, tables, spark.defaultParallelism)

    def _progress(self, now: ReadProgress) -> None:
        # Called from one thread, with running totals of this pass.
        before = self._told if now.rows >= self._told.rows else ReadProgress(0, 0, 0, 0)
        self.context.progress.advance(now.rows - before.rows)
        self._told = now
