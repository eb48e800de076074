"""Writes the rows of a DataFrame to a topic exactly once: in one Kafka transaction.

    driver   InitProducerId        fences earlier runs with this transactional id, aborts their open transaction
             OffsetFetch           if the marker has this run id, nothing is written
    tasks    rows -> partitions    each target partition belongs to one task, which alone counts its sequence numbers
             Produce               with the driver's producer id and epoch
    driver   TxnOffsetCommit       the marker, in the same transaction (`etl.kafka_writer.marker`)
             EndTxn                commits rows and marker

Spark may run a task or a stage again; then the job fails, and the driver aborts (`etl.kafka_writer.attempts`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import KafkaError
from kseg.client.groups.offsets import committed_offsets
from kseg.client.producer import KafkaProducer, ProducerConfig
from kseg.client.producer.partitioners import TopicPartitions
from kseg.client.protocol.partition import TopicPartition
from kseg.client.transactions.producer_identity import TransactionIdentity
from kseg.client.transactions.transaction import Transaction
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.kafka_writer.attempts import TaskRepeated, refuse_repetition, watched
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
from kseg.etl.tasks.error_transport import ErrorTransport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The brokers' default of `transaction.max.timeout.ms`.
DEFAULT_TIMEOUT_MS = 900_000
TARGET = "_kseg_target"
_WRITTEN = "partition int, rows long, first long, last long"
_MAX_ID = 249


@dataclass(frozen=True, slots=True)
class KafkaWrite:
    """The result of `write_kafka`.

    already_done: an earlier call with this run id has written these rows. Nothing was written now, and `partitions` is
        empty, because the partitions of the earlier call are not known.
    """

    topic: str
    run_id: str
    rows: int
    partitions: Mapping[TopicPartition, WrittenRange]
    already_done: bool = False


@dataclass(frozen=True)
class _Plan:
    """The data that the tasks need.

    partitions: those that the driver has added to the transaction. Tasks write to no others, however many the topic has
        when they start.
    target: index of the column `TARGET`.
    """

    config: ProducerConfig
    identity: TransactionIdentity
    columns: RowColumns
    topic: str
    partitions: TopicPartitions
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

    transactional_id: names the writer. Of two concurrent calls with the same one, the later fences the earlier.
    options: `bootstrap.servers` and other properties of the Java producer, without the prefix `kafka.`.
    run_id: names these rows. A call with one of the last 16 run ids that were committed to the topic writes nothing,
        and returns the number of rows of that run. Whether an older run was committed is not known: its rows are
        written again. Without a run id, the rows are always written.
    timeout_ms: how long the write may take; the coordinator aborts a longer one. At most the brokers'
        `transaction.max.timeout.ms`, by default 15 minutes.

    Raises:
        ConfigurationError: columns, properties or names, every fault at once.
        TaskRepeated: Spark ran a task again, after a failure without an error of kseg's (a lost executor), or
            speculatively; everything was aborted.
        BadRow: a row that cannot become a record; everything was aborted.
        Fenced, TransactionError: a newer call has begun, or the timeout is over or above what brokers allow.
        KafkaError: any other error. After a retriable error of the commit it is unknown whether the rows are committed:
            repeat the call with the same run id.
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
        partitions = TopicPartitions.of(known)
        marker = marker_partition(topic)
        with Transaction(cluster, transactional_id, timeout_ms=timeout_ms) as transaction:
            transaction.begin()
            runs = runs_in(committed_offsets(cluster, group, [marker], require_stable=True)[marker], known.topic_id)
            if run_id is not None and run_id in runs:
                transaction.abort()
                return KafkaWrite(topic, run_id, runs[run_id], {}, already_done=True)
            transaction.add_partitions([TopicPartition(topic, number) for number in range(partitions.count)])
            plan = _Plan(config, transaction.identity, columns, topic, partitions, len(df.columns))
            try:
                written = _write(df, plan)
            except BaseException:
                _abort_for_good(cluster, transaction, transactional_id)
                raise
            rows = sum(part.rows for part in written.values())
            if run_id is not None:  # without an id it cannot be repeated, and would displace other runs in the marker
                newest_first = {run_id: rows} | runs
                transaction.commit_offsets(group, {marker: marker_of(newest_first, known.topic_id)})
            elif not rows:
                transaction.abort()  # the coordinator has never heard of it (second protocol): it would reject a commit
                return KafkaWrite(topic, uuid.uuid4().hex, 0, {})
            transaction.commit()
    return KafkaWrite(topic, run_id or uuid.uuid4().hex, rows, written)


def _abort_for_good(cluster: Cluster, transaction: Transaction, transactional_id: str) -> None:
    """Abort, and fence task attempts that may still run with the producer id and epoch of this transaction.

    In the second transaction protocol (KIP-890) the abort raises the epoch; in the first one only InitProducerId does.
    """
    second = transaction.second_protocol
    try:
        transaction.abort()
        if not second:
            Transaction(cluster, transactional_id).begin()
    except KafkaError:
        pass  # the caller raises the original error; the coordinator aborts after the timeout


def _checked(
    df: DataFrame, transactional_id: str, topic: str, options: Mapping[str, str], run_id: str | None
) -> tuple[ProducerConfig, RowColumns]:
    faults: list[Diagnostic] = []
    if not 0 < len(transactional_id) <= _MAX_ID:
        faults.append(Diagnostic("transactional_id", f"has {len(transactional_id)} characters", f"1 to {_MAX_ID}"))
    if not topic:
        faults.append(Diagnostic("topic", "is empty"))
    if run_id is not None and not valid_run_id(run_id):
        faults.append(
            Diagnostic("run_id", f"{run_id!r} is not a name", "1 to 200 letters, digits, dots, dashes, underscores")
        )
    if "topic" in {name.lower() for name in df.columns}:
        faults.append(Diagnostic("topic", "is a column", "one transaction writes to one topic: drop the column"))
    if "transactional.id" in options:
        faults.append(Diagnostic("transactional.id", "has its own argument", "give transactional_id=…"))
    config, columns = None, None
    try:
        config = producer_config({key: value for key, value in options.items() if key != "transactional.id"})
    except ConfigurationError as error:
        faults += error.faults
    else:
        if not config.idempotent:
            faults.append(Diagnostic("acks", "exactly once needs an idempotent producer", "leave acks and retries out"))
    try:
        columns = row_columns(df.drop("topic").schema, topic or "-")
    except ConfigurationError as error:
        faults += error.faults
    if faults or config is None or columns is None:
        raise ConfigurationError(faults)
    return config, columns


def _write(df: DataFrame, plan: _Plan) -> dict[TopicPartition, WrittenRange]:
    """Run the Spark job; returns what was written to each partition."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    with_target = StructType([*df.schema.fields, StructField(TARGET, IntegerType(), nullable=False)])

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _place(plan, batches)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _write_partitions(plan, batches)

    placed = df.mapInArrow(place, with_target)
    # By number, not by hash: the targets are spread evenly over the tasks.
    tasks = max(1, min(plan.partitions.count, df.sparkSession.sparkContext.defaultParallelism * 2))
    shuffled = placed.repartitionById(tasks, placed[TARGET] % tasks)
    with watched(df.sparkSession.sparkContext, plan.transport):
        rows = shuffled.mapInArrow(write, _WRITTEN).collect()
    written: dict[TopicPartition, WrittenRange] = {}
    for row in rows:
        tp = TopicPartition(plan.topic, row["partition"])
        if tp in written:
            raise TaskRepeated("two tasks have written to one partition", topic=tp.topic, partition=tp.partition)
        written[tp] = WrittenRange(row["rows"], row["first"], row["last"])
    return written


def _place(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: adds the target partition of each row."""
    first = 0
    with plan.transport.packing():
        chooser = PartitionChooser(lambda _: plan.partitions, plan.config.batch_size)
        for batch in batches:
            columns = encodable(batch, plan.columns, first)
            rows = np.arange(batch.num_rows, dtype=np.int64)
            chosen = chooser.choose(plan.topic, batch, plan.columns, columns, rows, first)
            target = pa.array(chosen.astype(np.int32))
            yield pa.RecordBatch.from_arrays([*batch.columns, target], names=[*batch.schema.names, TARGET])
            first += batch.num_rows


def _write_partitions(plan: _Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: writes its rows, and returns what was written to each partition."""
    with plan.transport.packing():
        refuse_repetition(_task_context())
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
