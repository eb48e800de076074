"""Chooses the executor of a run from its plan: what it needs of Spark, and how much it reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.executors.choice import EngineChoice, choose
from kseg.etl.ledger import events as ev
from kseg.etl.run.context import JobContext
from kseg.etl.source.log_size import mean_sizes
from kseg.etl.spark.submission import is_submitted
from kseg.etl.transform.transform import transform_of
from kseg.segment_reader.log.errors import LogFileError


def choose_engine(context: JobContext, ranges: Sequence[ev.PlannedRange], by_spark: Collection[str]) -> EngineChoice:
    """Choose the executor that reads these ranges. by_spark: the tables that Spark's writer has to write.

    Raises ConfigurationError: the job needs Spark, and may not use it.
    """
    size = _estimated_bytes(context, ranges) if context.job.run.engine == "auto" else None
    return context.engine.choose(size=size, needs_spark=needs_spark(context.job, by_spark))


def foreseen_engine(context: JobContext, plan: ev.RunPlan) -> EngineChoice:
    """The choice that a run of this plan would make in a process of its own. Nothing is started.

    Raises ConfigurationError: as `choose_engine`.
    """
    size = _estimated_bytes(context, plan.ranges) if context.job.run.engine == "auto" else None
    by_spark = context.targets.by_spark(plan.tables, removing=disposition_of(plan).removes)
    return choose(
        context.job,
        size=size,
        needs_spark=needs_spark(context.job, by_spark),
        spark="submitted" if is_submitted() else "none",
    )


def needs_spark(job: Job, by_spark: Collection[str]) -> str | None:
    """The step, setting or table that only Spark can do, in words; None if there is none."""
    for step in transform_of(job).on_frame:
        return f"{step.place} is a step that Spark runs"
    if job.sink.widen:
        return "sink.widen changes tables with Spark"
    for table in by_spark:
        return f"the table {table} has to be written by Spark"
    return None


def _estimated_bytes(context: JobContext, ranges: Sequence[ev.PlannedRange]) -> float:
    partitions = {TopicPartition(planned.topic, planned.partition) for planned in ranges}
    try:
        known = context.clients.logs.sizes(partitions)
    except (KafkaError, LogFileError):  # no permission, or a broker that is away: an estimate is no reason to fail
        known = {}
    sizes = mean_sizes(known, partitions)
    return sum(planned.length * sizes[TopicPartition(planned.topic, planned.partition)] for planned in ranges)
