"""`spark.readStream.format("kseg")`: micro-batches with Spark's own checkpoints.

    offsets/0   {} ──► pinned starts          reads nothing: it only stores the query's start offsets
    offsets/1   starts ──► ends               reads the offsets in between, in tasks like those of a batch read
    …

Spark writes the end offsets of a micro-batch into its checkpoint before anything is read, and after a crash repeats the
micro-batch with the same offsets. It does not store the start offsets of the first micro-batch, or of a partition that
appears later: they would be resolved again, and "latest" would be another offset by then. So a micro-batch that reads
nothing from these partitions stores their start offsets, and the next one reads from there. Whatever a restart repeats
is between two offsets in the checkpoint. With read_committed the ends are last stable offsets, so that all transactions
below them are complete.

A query fails if it cannot continue: another cluster, a recreated topic, a log that lost records
(`failOnDataLoss`). Source: `pyspark.sql.datasource.DataSourceStreamReader`, `pyspark.sql.streaming.datasource`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kseg.client.cluster.metadata import TopicMetadata
from kseg.client.errors import UnknownTopic
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.lag import until_current, until_known
from kseg.etl.source.logs import Logs, open_logs
from kseg.etl.source.resolve import LogBounds
from kseg.etl.spark.remedies import RemediesTold
from kseg.etl.spark_format.partition import KsegPartition, read_partition
from kseg.etl.spark_format.planning import PartitionRange, is_given
from kseg.etl.spark_format.stream_identity import behind, check_cluster, lost_records
from kseg.etl.spark_format.stream_offsets import StreamOffsets, take_at_most
from kseg.etl.spark_format.stream_options import StreamOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Seen:
    """The partitions that are read, observed at one moment."""

    topics: dict[TopicPartition, TopicMetadata]
    bounds: dict[TopicPartition, LogBounds]
    cluster: str | None

    def at(self, offsets: Mapping[TopicPartition, int]) -> StreamOffsets:
        """These offsets with the topic ids and leader epochs that show later whether topics and logs are the same."""
        partitions = [tp for tp in offsets if tp in self.topics]
        ids = {tp.topic: self.topics[tp].topic_id for tp in partitions}
        return StreamOffsets(
            dict(offsets),
            pinned=True,
            cluster=self.cluster,
            ids={topic: known for topic, known in ids.items() if known is not None},
            epochs={tp: self.bounds[tp].leader_epoch for tp in partitions if self.bounds[tp].leader_epoch >= 0},
        )

    @property
    def everywhere(self) -> StreamOffsets:
        """All partitions, for their ids and epochs; the offsets are 0."""
        return self.at(dict.fromkeys(self.bounds, 0))


class KsegStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process beside the driver while the query runs. Workers get a copy without connections."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._target: StreamOffsets | None = None
        self._last_batch = time.monotonic()
        self._stack: ExitStack | None = None
        self._logs: Logs | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None, "_logs": None}

    # --- called by Spark ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Empty: the first micro-batch stores the query's start offsets."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    @RemediesTold()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the current ends: the query reads up to them, and nothing that is produced later."""
        seen = self._observe()
        self._target = seen.at(self._ends(seen))

    @RemediesTold()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end offsets of the next micro-batch; `start` itself if there is nothing to read.

        Raises:
            Refused: `another-cluster`; with failOnDataLoss `topic-recreated`, `log-truncated`, `topic-missing`.
            UnknownTopic: a subscribed topic does not exist, and the query has not read it.
            KafkaError: a request to the cluster failed.
        """
        began = StreamOffsets.of(start)
        seen = self._observe_after(began)
        check_cluster(began, seen.cluster)
        if began.is_before_all:
            return self._begun(seen).document()
        known = began.resumed(seen.everywhere)
        pins = self._lost(known, seen)
        starts = {tp: offset for tp, offset in began.offsets.items() if tp in seen.topics and tp not in pins}
        ends = self._bounded(seen)
        new = ends.keys() - began.offsets.keys() - pins.keys()
        pins |= {tp: known.offsets.get(tp, seen.bounds[tp].start) for tp in new}
        ends = {tp: max(ends.get(tp, start), start) for tp, start in starts.items()}
        end = seen.at(self._admitted(starts, ends, limit) | pins)
        end = replace(
            end, cluster=end.cluster or began.cluster, missing=known.missing_from(end.offsets, int(time.time() * 1000))
        )
        if end.offsets == began.offsets and all(end.same_topic(began, topic) for topic in end.ids):
            return start
        self._last_batch = time.monotonic()
        return end.document()

    @RemediesTold()
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The current ends of the logs, for the query's progress."""
        seen = self._observe()
        return seen.at(self._ends(seen)).document()

    @RemediesTold()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; after a restart, of the one that Spark had planned before.

        Raises:
            Refused: as `latestOffset`; `checkpoint-unfinished` for a micro-batch that Spark's own Kafka source has
                begun.
            OffsetsLost: the log now starts above the start of a range, with failOnDataLoss.
        """
        began, ends = StreamOffsets.of(start), StreamOffsets.of(end)
        ranges = self._between(began, ends)
        if not ranges:
            return []
        seen = self._observe_after(ends)
        check_cluster(ends, seen.cluster)
        lost = self._lost(ends, seen)
        kept = [found for one in ranges if (found := self._still_there(one, seen, lost)) is not None]
        read = self._options.read
        tasks = self._open().tasks(
            kept,
            max_records=read.max_records_per_partition,
            min_tasks=read.min_partitions or 1,
            topics=ends.ids or {tp.topic: topic.topic_id for tp, topic in seen.topics.items()},
            leaders={tp: topic.partitions[tp.partition].leader_id for tp, topic in seen.topics.items()},
        )
        return [KsegPartition((task,)) for task in tasks]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """In a worker: one task's rows."""
        with RemediesTold():
            yield from read_partition(partition, self._options.read)

    def stop(self) -> None:
        if self._stack is not None:
            self._stack.close()
        self._stack = self._logs = None

    # --- observations of the cluster ---------------------------------------------------------------------------------

    def _open(self) -> Logs:
        if self._logs is None:
            self._stack = ExitStack()
            self._logs = self._stack.enter_context(open_logs(self._options.read.origin))
        return self._logs

    def _observe(self, known: StreamOffsets | None = None) -> _Seen:
        """known: the checkpoint; without it, any topic may be missing, since `latestOffset` is called as well."""
        logs, topics = self._open(), self._topics(known)
        return _Seen(topics, logs.bounds(topics), logs.cluster_id({tp.topic for tp in topics}) if topics else None)

    def _topics(self, known: StreamOffsets | None) -> dict[TopicPartition, TopicMetadata]:
        """The partitions that exist. Named ones that do not are left out if the query has read them: see `_lost`.

        Raises:
            UnknownTopic: a named topic does not exist, and the query has not read it.
        """
        read = self._options.read
        topics, assign = read.topics, read.assign

        def ask() -> dict[TopicPartition, TopicMetadata]:
            nonlocal topics, assign
            while True:
                try:
                    return self._open().topics(topics=topics, pattern=read.pattern, assign=assign)
                except UnknownTopic as error:
                    left = _without(error, topics, assign)
                    read_before = known is None or known.has_read(error.topic, error.partition)
                    if left == (topics, assign) or not read_before:
                        raise
                    topics, assign = left

        return until_known(ask)

    def _observe_after(self, known: StreamOffsets) -> _Seen:
        """Calls `_observe`, and repeats it while a response is older than the checkpoint.

        Such a response has older leader epochs, or lacks partitions that the checkpoint has. After some seconds these
        partitions count as missing.

        Raises:
            RetriableFailure: the leader epochs stay older.
        """
        selected = [tp for tp in known.offsets if self._options.read.selects(tp)]
        return until_current(
            lambda: self._observe(known),
            lambda seen: behind(known.resumed(seen.everywhere), seen.everywhere),
            lambda seen: any(tp not in seen.topics for tp in selected),
        )

    def _ends(self, seen: _Seen) -> dict[TopicPartition, int]:
        committed = self._options.read.isolation_level == "read_committed"
        return {tp: log.last_stable if committed else log.high_watermark for tp, log in seen.bounds.items()}

    def _begun(self, seen: _Seen) -> StreamOffsets:
        """The start offsets of a new query. Raises OffsetsLost: they are outside of the log, with failOnDataLoss."""
        read, logs = self._options.read, self._open()
        starts = logs.offsets(
            read.start,
            seen.topics,
            isolation_level=read.isolation_level,
            group=read.group,
            fail_on_data_loss=read.fail_on_data_loss,
        )
        # Listed again, since records may have arrived in between: bounds that are older than the offsets would have
        # their end below them, as if the log had been truncated, and their epoch may have ended below them.
        seen = replace(seen, bounds=logs.bounds(seen.topics))
        for tp, start in starts.items():
            first, last = seen.bounds[tp].start, seen.bounds[tp].high_watermark
            if read.fail_on_data_loss and is_given(read.start, tp):
                if start < first:
                    raise OffsetsLost(tp.topic, tp.partition, start, first)
                if start > last:
                    raise OffsetsLost(tp.topic, tp.partition, last, start, "truncation")
            starts[tp] = min(max(start, first), max(first, last))
        return seen.at(starts)

    def _bounded(self, seen: _Seen) -> dict[TopicPartition, int]:
        """The logs' ends; with Trigger.AvailableNow not above those at the query's start."""
        ends = self._ends(seen)
        if self._target is None:
            return ends
        target = self._target
        return {
            # A topic recreated since then has other records at these offsets: read up to its current end.
            tp: min(end, target.offsets[tp]) if target.same_topic(seen.at({tp: end}), tp.topic) else end
            for tp, end in ends.items()
            if tp in target.offsets
        }

    # --- from one offset to the next ---------------------------------------------------------------------------------

    def _lost(self, began: StreamOffsets, seen: _Seen) -> dict[TopicPartition, int]:
        """Without failOnDataLoss: where to continue in partitions that lost records which the query has read.

        Raises:
            Refused: records or partitions were lost, with failOnDataLoss.
        """
        fail = self._options.read.fail_on_data_loss
        gone = sorted(began.offsets.keys() - seen.topics.keys())
        if gone and fail:
            raise Refused.of(
                "topic-missing", {"first": gone[0]}, case="query", topic=gone[0].topic, partition=gone[0].partition
            )
        left = replace(began, offsets={tp: offset for tp, offset in began.offsets.items() if tp in seen.topics})
        pins = {}
        for loss in lost_records(left, seen.at(left.offsets), seen.bounds, self._open()):
            if fail:
                raise loss.refusal
            pins[loss.tp] = seen.bounds[loss.tp].start if loss.at is None else loss.at
        return pins

    def _admitted(
        self, starts: Mapping[TopicPartition, int], ends: dict[TopicPartition, int], limit: ReadLimit
    ) -> dict[TopicPartition, int]:
        if isinstance(limit, ReadAllAvailable):
            return ends
        options = self._options
        waiting = sum(end - starts[tp] for tp, end in ends.items())
        waited = time.monotonic() - self._last_batch
        patient = self._target is None and waited < options.max_delay.total_seconds()
        if options.min_offsets is not None and waiting < options.min_offsets and patient:
            return {tp: starts[tp] for tp in ends}
        return ends if options.max_offsets is None else take_at_most(options.max_offsets, starts, ends)

    def _between(self, began: StreamOffsets, ends: StreamOffsets) -> list[PartitionRange]:
        if not ends.pinned and (new := sorted(ends.offsets.keys() - began.offsets.keys())):
            raise Refused.of("checkpoint-unfinished", {"first": new[0]}, topic=new[0].topic, partition=new[0].partition)
        return [
            PartitionRange(tp.topic, tp.partition, began.offsets[tp], end)
            for tp, end in sorted(ends.offsets.items())
            if tp in began.offsets and began.same_topic(ends, tp.topic) and began.offsets[tp] < end
        ]

    def _still_there(
        self, wanted: PartitionRange, seen: _Seen, lost: Mapping[TopicPartition, int]
    ) -> PartitionRange | None:
        """The part of a range that can still be read, or None. Raises OffsetsLost, with failOnDataLoss."""
        tp = TopicPartition(wanted.topic, wanted.partition)
        log = seen.bounds.get(tp)
        if log is None:
            return None  # the partition is gone; with failOnDataLoss `_lost` has raised
        if wanted.start < log.start and self._options.read.fail_on_data_loss:
            raise OffsetsLost(tp.topic, tp.partition, wanted.start, min(log.start, wanted.end))
        start, end = max(wanted.start, log.start), min(wanted.end, lost.get(tp, wanted.end))
        return replace(wanted, start=start, end=end, leader_epoch=log.leader_epoch) if start < end else None


def _without(
    unknown: UnknownTopic, topics: tuple[str, ...] | None, assign: Mapping[str, tuple[int, ...]] | None
) -> tuple[tuple[str, ...] | None, Mapping[str, tuple[int, ...]] | None]:
    """The names or the assignment without the topic or partition that does not exist."""
    if topics is not None:
        topics = tuple(name for name in topics if name != unknown.topic)
    if assign is not None:
        left = {
            name: tuple(n for n in numbers if name != unknown.topic or unknown.partition not in (None, n))
            for name, numbers in assign.items()
        }
        assign = {name: numbers for name, numbers in left.items() if numbers}
    return topics, assign
