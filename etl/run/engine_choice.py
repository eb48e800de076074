"""Chooses the executor of a run from its plan: what it needs of Spark, and how much it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.executors.choice import EngineChoice, choose
from kseg.etl.ledger import events as ev
from kseg.etl.run.context import JobContext
from kseg.etl.source.log_size import mean_sizes
from kseg.etl.source.packing import SMALL
from kseg.etl.spark.submission import is_submitted
from kseg.etl.transform.transform import transform_of
from kseg.segment_reader.log.errors import LogFileError

if TYPE_CHECKING:
    from kseg.etl.executors.port import Executor


def choose_engine(context: JobContext, ranges: Sequence[ev.PlannedRange], by_spark: Collection[str]) -> EngineChoice:
    """Choose the executor that reads these ranges. by_spark: the tables that Spark's writer has to write.

    Raises ConfigurationError: the job needs Spark, and may not use it.
    """
    return context.engine.choose(size=_size_of(context, ranges), needs_spark=needs_spark(context.job, by_spark))


def foreseen_engine(context: JobContext, plan: ev.RunPlan) -> EngineChoice:
    """The choice that a run of this plan would make in a process of its own. Nothing is started.

    Raises ConfigurationError: as `choose_engine`.
    """
    by_spark = context.targets.by_spark(plan.tables, removing=disposition_of(plan).removes)
    return choose(
        context.job,
        size=_size_of(context, plan.ranges),
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


def small_executor(context: JobContext, lengths: Mapping[TopicPartition, int]) -> Executor:
    """The executor of a read that is not worth the start of a JVM: worker processes if the job may use them and there
    is more than one pack to read, else this process. lengths: the number of offsets to read.

    Raises ConfigurationError.
    """
    from kseg.etl.executors.driver import DriverExecutor  # with what tasks load, which not all callers need

    more = sum(lengths.values()) > SMALL
    return (context.engine.local(size=_size(context, lengths)) if more else None) or DriverExecutor()


def _size_of(context: JobContext, ranges: Iterable[ev.PlannedRange]) -> float | None:
    lengths: Counter[TopicPartition] = Counter()
    for planned in ranges:
        lengths[TopicPartition(planned.topic, planned.partition)] += planned.length
    return _size(context, lengths)


def _size(context: JobContext, lengths: Mapping[TopicPartition, int]) -> float | None:
    """The estimated bytes of these offsets; None if the engine does not depend on them."""
    if context.job.run.engine != "auto":
        return None
    try:
        known = context.clients.logs.sizes(lengths)
    except (KafkaError, LogFileError):  # no permission, or a broker that is away: an estimate is no reason to fail
        known = {}
    sizes = mean_sizes(known, lengths)
    return sum(length * sizes[tp] for tp, length in lengths.items())
