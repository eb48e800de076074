"""The records of a read's tasks as a DataFrame, for SQL and Python steps:

    range(n).mapInArrow(read -> Arrow steps)

A Spark task reads one pack (`etl.tasks.packs`). Range results are sent with an accumulator; Spark uses only the result
of the successful attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.deferred_secrets import TaskOrigin
from kseg.etl.source.packing import NO_ROUTES, Routes
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.narrowing import Crossing
from kseg.etl.tasks.packs import NOTHING_BESIDE, AttemptNumbers, Beside, PackPlan, spare_the_collector
from kseg.etl.tasks.range_results import RangeResults, ResultAccumulator
from kseg.etl.transform.transform import NO_STEPS, BatchSteps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def attempt_of_task() -> AttemptNumbers:
    """The attempt of the Spark task that this worker runs; its id is unique in the Spark application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs in a Spark task only")
    return AttemptNumbers(context.taskAttemptId(), context.attemptNumber())


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
    plan = PackPlan.of(tasks, origin, options, steps, beside, routes=routes, mixed=False, cores=cores, topics=topics)
    accumulator = gathered if gathered is not None else _accumulator(spark)
    range_results = RangeResults(tasks, accumulator, plan.transport)
    schema = next((its.schema for its in plan.rows.values()), None) or steps.output_schema(options.schema)
    return ReadRows(spark, plan, accumulator, schema), range_results


def _accumulator(spark: SparkSession) -> ResultAccumulator:
    from kseg.etl.spark.accumulator import new_accumulator  # loads pyspark

    return new_accumulator(spark.sparkContext)


@dataclass(frozen=True)
class ReadRows:
    """The records of a plan as a DataFrame. schema: the rows' schema."""

    spark: SparkSession
    plan: PackPlan
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
    plan: PackPlan, accumulator: ResultAccumulator, indexes: Iterator[pa.RecordBatch], crossing: Crossing | None
) -> Iterator[pa.RecordBatch]:
    with plan.transport.packing():
        packs = (pack for batch in indexes for pack in batch.column(0).to_pylist())
        for attempt, readings in plan.readings(packs, attempt_of_task()):
            for reading in readings:
                yield from reading if crossing is None else map(crossing.apply, reading)
                range_result = reading.result
                accumulator.add({(range_result.index, attempt.attempt_id): range_result})
    spare_the_collector()
