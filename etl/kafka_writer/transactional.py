"""Rows of a DataFrame to a topic exactly once: one Kafka transaction for all of them.

    driver   InitProducerId        fences the run before with this transactional id, ends what it left open
             OffsetFetch           does the marker say that this run is done? then nothing is written
    tasks    rows -> partitions    every target partition belongs to one task, so that each counts its sequences alone
             Produce               with the driver's producer id and epoch
    driver   TxnOffsetCommit       the marker, inside the same transaction (`etl.kafka_writer.marker`)
             EndTxn                all of it counts from here on, or none

Spark may run a task again; what the first attempt has written is in the transaction by then and cannot be taken back
alone. So an attempt that is not the first raises an error, the job fails, and the driver aborts. A stage that runs
again, since shuffle files were lost, counts attempts from 0 again, which a Python task cannot see: the driver asks
Spark for the attempts of each stage. A stage that Spark has forgotten by then may have run again, so that aborts as
well.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import KafkaError, error_from_code
from kseg.client.groups.offsets import committed_offsets
from kseg.client.producer import KafkaProducer, ProducerConfig
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.producer_identity import TransactionIdentity
from kseg.client.transactions.transaction import Transaction
from kseg.etl.errors import ConfigurationError, Fault, RetriableFailure
from kseg.etl.kafka_writer.columns import RowColumns, row_columns
from kseg.etl.kafka_writer.marker import (
    WrittenRange,
    marker_group,
    marker_of,
    marker_partition,
    runs_in,
    valid_run_id,
)
from kseg.etl.kafka_writer.options import producer_config
from kseg.etl.kafka_writer.rows import PartitionChooser, RowWriter, encodable
from kseg.etl.spark.error_transport import ErrorTransport

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

#: What brokers allow a transaction to last, unless `transaction.max.timeout.ms` says otherwise there.
DEFAULT_TIMEOUT_MS = 900_000
TARGET = "_kseg_target"
_WRITTEN = "partition int, rows long, first long, last long"
_MAX_ID = 249
_EVENTS_MS = 60_000


class TaskRepeated(RetriableFailure):
    """Spark ran a task of an exactly-once write a second time, so all of it was aborted. Run the write again."""


@dataclass(frozen=True, slots=True)
class KafkaWrite:
    """What `write_kafka` did.

    already_done: an earlier call with this run id had written these rows; nothing was written now, and which partitions
        they went to is not known (`partitions` is empty).
    """

    topic: str
    run_id: str
    rows: int
    partitions: Mapping[TopicPartition, WrittenRange]
    already_done: bool = False


@dataclass(frozen=True)
class _Plan:
    """What the tasks get."""

    config: ProducerConfig
    identity: TransactionIdentity
    columns: RowColumns
    topic: str
    target: int
    transport: ErrorTransport = field(default_factory=ErrorTransport)


def write_kafka(
    df: DataFrame,
    *,
    transactional_id: str,
    topic: str,
    options: Mapping[str, str],
    run_id: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> KafkaWrite:
    """Write all rows to a topic, in one transaction. Needs a session with a SparkContext, not one of Spark Connect.

    The columns are those of `format("kseg")` without `topic`. Rows of one target partition go through one task; their
    order is that of Spark's shuffle.

    transactional_id: names the writer. Of two calls with the same one at a time, the later fences the earlier.
    options: `bootstrap.servers` and other properties of the Java producer, without the prefix `kafka.`.
    run_id: names these rows. A call with the run id of one of the last 16 that were committed to the topic writes
        nothing, and gives how many rows that one wrote. Whether an older one was committed is not known: its rows are
        written again, as those of a new run id. Without a run id the rows are written in any case.
    timeout_ms: how long the write may take; the coordinator aborts a longer one. At most the brokers'
        `transaction.max.timeout.ms`, 15 minutes unless changed there.

    Raises:
        ConfigurationError: columns, properties or names, every fault at once.
        TaskRepeated: Spark ran a task again; everything was aborted.
        BadRow: a row that cannot become a record; everything was aborted.
        Fenced, TransactionError: a newer call has begun, or the timeout is over or above what brokers allow.
        KafkaError: what else went wrong. After an error that is retriable in committing the outcome is open: the same
            call with the same run id finds it out.
    """
    if not hasattr(df.sparkSession, "_jvm"):
        raise ConfigurationError.of(
            "df",
            "a Spark Connect session does not show whether a stage ran twice, which this write has to know",
            'use df.write.format("kseg"), which is at least once, or a session with a SparkContext',
        )
    config, columns = _checked(df, transactional_id, topic, options, run_id)
    group = marker_group(transactional_id)
    with Cluster(config.client) as cluster:
        known = cluster.metadata([topic], refresh=True).topics[topic]
        if known.error is not None:
            raise error_from_code(known.error, "Metadata", topic=topic)
        targets = [TopicPartition(topic, number) for number in sorted(known.partitions)]
        marker = marker_partition(topic)
        with Transaction(cluster, transactional_id, timeout_ms=timeout_ms) as transaction:
            transaction.begin()
            runs = runs_in(committed_offsets(cluster, group, [marker], require_stable=True)[marker], known.topic_id)
            if run_id is not None and run_id in runs:
                transaction.abort()
                return KafkaWrite(topic, run_id, runs[run_id], {}, already_done=True)
            transaction.add_partitions(targets)
            try:
                written = _write(df, _Plan(config, transaction.identity, columns, topic, len(df.columns)), len(targets))
            except BaseException:
                _abort_for_good(cluster, transaction, transactional_id)
                raise
            rows = sum(part.rows for part in written.values())
            if run_id is not None:  # a run without a name cannot be asked for, so it takes no place among those kept
                newest_first = {run_id: rows} | runs
                transaction.commit_offsets(group, {marker: marker_of(newest_first, known.topic_id)})
            transaction.commit()
    return KafkaWrite(topic, run_id or uuid.uuid4().hex, rows, written)


def _abort_for_good(cluster: Cluster, transaction: Transaction, transactional_id: str) -> None:
    """Abort, and leave no attempt that still sleeps somewhere able to write under the ids of this transaction.

    The second protocol's abort raises the epoch by itself; in the first one only another InitProducerId does.
    """
    second = transaction.second_protocol
    try:
        transaction.abort()
        if not second:
            Transaction(cluster, transactional_id).begin()
    except KafkaError:
        pass  # the error that brought us here says more; the coordinator aborts after the timeout


def _checked(
    df: DataFrame, transactional_id: str, topic: str, options: Mapping[str, str], run_id: str | None
) -> tuple[ProducerConfig, RowColumns]:
    faults: list[Fault] = []
    if not 0 < len(transactional_id) <= _MAX_ID:
        faults.append(Fault("transactional_id", f"has {len(transactional_id)} characters", f"1 to {_MAX_ID}"))
    if not topic:
        faults.append(Fault("topic", "is empty"))
    if run_id is not None and not valid_run_id(run_id):
        faults.append(
            Fault("run_id", f"{run_id!r} is not a name", "1 to 200 letters, digits, dots, dashes, underscores")
        )
    if "topic" in {name.lower() for name in df.columns}:
        faults.append(Fault("topic", "is a column", "one transaction writes to one topic: drop the column"))
    if "transactional.id" in options:
        faults.append(Fault("transactional.id", "has its own argument", "give transactional_id=…"))
    config, columns = None, None
    try:
        config = producer_config({key: value for key, value in options.items() if key != "transactional.id"})
    except ConfigurationError as error:
        faults += error.faults
    else:
        if not config.idempotent:
            faults.append(Fault("acks", "exactly once needs an idempotent producer", "leave acks and retries out"))
    try:
        columns = row_columns(df.drop("topic").schema, topic or "-")
    except ConfigurationError as error:
        faults += error.faults
    if faults or config is None or columns is None:
        raise ConfigurationError(faults)
    return config, columns


def _write(df: DataFrame, plan: _Plan, targets: int) -> dict[TopicPartition, WrittenRange]:
    """The Spark job; gives what each partition got."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    with_target = StructType([*df.schema.fields, StructField(TARGET, IntegerType(), nullable=False)])

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _place(plan, batches)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _write_partitions(plan, batches)

    placed = df.mapInArrow(place, with_target)
    # By number and not by hash: every target has a task, and no task more than its share.
    tasks = max(1, min(targets, df.sparkSession.sparkContext.defaultParallelism * 2))
    shuffled = placed.repartitionById(tasks, placed[TARGET] % tasks)
    with plan.transport.opening(), _watched(df.sparkSession.sparkContext):
        rows = shuffled.mapInArrow(write, _WRITTEN).collect()
    written: dict[TopicPartition, WrittenRange] = {}
    for row in rows:
        tp = TopicPartition(plan.topic, row["partition"])
        if tp in written:
            raise TaskRepeated("two tasks have written to one partition", topic=tp.topic, partition=tp.partition)
        written[tp] = WrittenRange(row["rows"], row["first"], row["last"])
    return written


@contextmanager
def _watched(context: SparkContext) -> Iterator[None]:
    """Around the job. Raises TaskRepeated if Spark has run a stage again, RetriableFailure if that is not known."""
    name = "spark.jobGroup.id"
    before: Any = context.getLocalProperty(name)  # None takes the property away again
    group = f"kseg-write-{uuid.uuid4().hex}"
    context.setLocalProperty(name, group)
    try:
        yield
    finally:
        context.setLocalProperty(name, before)
    _await_events(context)
    _refuse_repeated_stages(context.statusTracker(), group)


def _refuse_repeated_stages(status: Any, group: str) -> None:
    """Raises TaskRepeated unless Spark knows that each stage of the group's jobs ran once."""
    jobs = {number: status.getJobInfo(number) for number in status.getJobIdsForGroup(group)}
    forgotten = [f"job {number}" for number, job in jobs.items() if job is None]
    for stage in sorted({stage for job in jobs.values() if job is not None for stage in job.stageIds}):
        found = status.getStageInfo(stage)
        if found is None:
            forgotten.append(f"stage {stage}")
        elif found.currentAttemptId > 0:
            raise TaskRepeated(
                f"Spark ran stage {stage} again (attempt {found.currentAttemptId}): what its first one wrote cannot be "
                "told apart",
                remedy="run the write again",
            )
    if forgotten or not jobs:
        raise TaskRepeated(
            f"Spark no longer knows whether it ran {', '.join(forgotten) or 'a stage of the write'} again",
            remedy="run the write again in a session with larger spark.ui.retainedStages and spark.ui.retainedJobs",
        )


def _await_events(context: SparkContext) -> None:
    """A job may be over before the tracker knows of its last stage: events wait in a queue. There is no public method
    for this. Raises RetriableFailure.
    """
    try:
        context._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MS)
    except Exception as error:
        raise RetriableFailure(
            f"Spark has not reported within {_EVENTS_MS / 1000:g} s whether it ran a stage again",
            remedy="run the write again",
        ) from error


def _place(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: adds the target partition of each row."""
    first = 0
    with plan.transport.packing(), KafkaProducer(plan.config) as asking:  # connects for the topic's partitions alone
        chooser = PartitionChooser(asking)
        for batch in batches:
            columns = encodable(batch, plan.columns, first)
            rows = np.arange(batch.num_rows, dtype=np.int64)
            chosen = chooser.choose(plan.topic, batch, plan.columns, columns, rows, first)
            target = pa.array(chosen.astype(np.int32))
            yield pa.RecordBatch.from_arrays([*batch.columns, target], names=[*batch.schema.names, TARGET])
            first += batch.num_rows


def _write_partitions(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: writes its rows, and returns what each partition got."""
    with plan.transport.packing():
        _refuse_repetition(_task_context())
        with KafkaProducer(plan.config, identity=plan.identity) as producer:
            writer = RowWriter(producer, plan.columns, plan.topic, target_column=plan.target)
            writer.write(batches)
            written = sorted(writer.finish().items())
        columns = [
            pa.array([tp.partition for tp, _ in written], pa.int32()),
            pa.array([part.rows for _, part in written], pa.int64()),
            pa.array([part.first for _, part in written], pa.int64()),
            pa.array([part.last for _, part in written], pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "rows", "first", "last"])


def _task_context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


def _refuse_repetition(context: Any) -> None:
    """A retried or speculative attempt: another may have written already."""
    if context is None:
        raise RuntimeError("this runs in a Spark task only")
    if context.attemptNumber() > 0:
        raise TaskRepeated(
            f"Spark ran task {context.partitionId()} a second time (attempt {context.attemptNumber()}): what the first "
            "one wrote cannot be told apart",
            remedy="run the write again; speculation is better off for it (spark.speculation=false)",
        )
