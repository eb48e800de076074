"""Fetch (1): a partition in a request, and what a partition in a response means.

The record set comes as a view of the received bytes, uninterpreted. It may begin below the offset asked for (a batch
comes whole), end with an incomplete batch, and, with its first batch, be larger than every limit that was asked for.

From version 13 on the topic is named by its id (KIP-516), so a topic that was deleted and created again under the same
name is distinguished; where the id is not known, version 12 is the last. `replica_id` stays -1: a replica would get
records that no consumer may see yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import leader_hint
from kseg.client.errors import BrokerError, KafkaError, LogTruncated, OffsetOutOfRange, error_from_code
from kseg.client.offsets import EARLIEST, LATEST, SpecialTimestamp, list_offsets
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import FETCH_FROM_FOLLOWER, FetchRequest, FetchResponse
from kseg.client.protocol.partition import TopicPartition

_FIRST_WITH_STABLE_OFFSET: Final = 4
FIRST_WITH_TOPIC_IDS: Final = 13
FIRST_WITH_LAST_EPOCH: Final = 12
#: For the last fetch of a range: what it wants is there already, so an answer without records is to come at once.
LAST_MAX_WAIT_MS: Final = 10
NOT_KNOWN: Final = -1

PartitionData = FetchResponse.PartitionData


class AbortedTransaction(NamedTuple):
    """An aborted transaction that overlaps what was returned; it may have begun before it."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """One Fetch answer. `records` is the record set as it came; offsets are -1 where the broker is too old.

    `throttle_time_ms` includes that of earlier responses without any partition: a broker over its quota sends none.
    In a response with many partitions the first one has it.
    `broker`: the id of the broker that responded.
    """

    records: memoryview
    aborted: list[AbortedTransaction]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    fetch_offset: int
    throttle_time_ms: int
    broker: int = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """One partition of a request.

    `last_epoch`: the leader epoch of the record before `offset` (-1: not known); a leader whose log has another one
    there says so (KIP-595), see `LogTruncated`.
    """

    tp: TopicPartition
    offset: int
    leader_epoch: int
    max_bytes: int
    topic_id: UUID | None
    last_epoch: int = NOT_KNOWN


def topics_of(fetches: Iterable[PartitionFetch], version: int) -> list[FetchRequest.FetchTopic]:
    """The partitions as a request carries them, in the order given: a broker serves them in that order.

    A topic is repeated for each consecutive group of its partitions.
    """
    topics: list[FetchRequest.FetchTopic] = []
    current: tuple[str, UUID | None] | None = None
    for fetch in fetches:
        if current != (fetch.tp.topic, fetch.topic_id):
            current = (fetch.tp.topic, fetch.topic_id)
            topics.append(name_topic(FetchRequest.FetchTopic(), fetch.tp.topic, fetch.topic_id, version))
        partition = FetchRequest.FetchPartition(
            partition=fetch.tp.partition,
            current_leader_epoch=fetch.leader_epoch,
            fetch_offset=fetch.offset,
            partition_max_bytes=fetch.max_bytes,
        )
        if version >= FIRST_WITH_LAST_EPOCH:
            partition.last_fetched_epoch = fetch.last_epoch
        topics[-1].partitions.append(partition)
    return topics


def name_topic(entry: Any, topic: str, topic_id: UUID | None, version: int) -> Any:
    """Name a topic in a request's entry by its id where the version does so, else by its name."""
    if version >= FIRST_WITH_TOPIC_IDS and topic_id is not None:
        entry.topic_id = topic_id
    else:
        entry.topic = topic
    return entry


def records_of(
    partition: PartitionData, offset: int, throttle_time_ms: int, broker: int, version: int
) -> FetchedRecords:
    """The result of a response without an error."""
    records = partition.records
    # A broker that knows no last stable offset (before 0.11) has no transactions: all that is replicated is decided.
    has_stable_offset = version >= _FIRST_WITH_STABLE_OFFSET
    return FetchedRecords(
        records=memoryview(b"") if records is None else memoryview(records),
        aborted=[AbortedTransaction(a.producer_id, a.first_offset) for a in partition.aborted_transactions or ()],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset if has_stable_offset else partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        fetch_offset=offset,
        throttle_time_ms=throttle_time_ms,
        broker=broker,
    )


def error_of(
    cluster: Cluster,
    fetch: PartitionFetch,
    response: FetchResponse,
    partition: PartitionData,
    *,
    at_leader: bool,
) -> KafkaError | None:
    """The error of a partition in a response, with its address; None without one.

    Metadata is updated by its leader hint. After OFFSET_OUT_OF_RANGE the leader is asked for the log's start and end,
    which the error does not carry.
    """
    tp = fetch.tp
    error: KafkaError | None = None
    diverging = partition.diverging_epoch
    if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and at_leader:
        error = _out_of_range(cluster, tp, fetch.offset)
    elif partition.error_code:
        what = "Fetch" if at_leader else FETCH_FROM_FOLLOWER
        error = error_from_code(partition.error_code, what, topic=tp.topic, partition=tp.partition)
        hint = leader_hint(tp, partition.current_leader, response.node_endpoints)
        # A replica's failure says nothing about the leader, who is asked next and at once.
        error.learnt = (not at_leader and error.retriable) or (hint is not None and cluster.learn_leader(hint))
    elif diverging.end_offset >= 0 or diverging.epoch >= 0:
        error = LogTruncated(
            f"the log was truncated: epoch {diverging.epoch} ends at {diverging.end_offset}, and the record before "
            f"{fetch.offset} was of epoch {fetch.last_epoch}",
            offset=fetch.offset,
            epoch=diverging.epoch,
            end_offset=diverging.end_offset,
        )
    if error is not None:
        error.topic, error.partition = tp
    return error


def _out_of_range(cluster: Cluster, tp: TopicPartition, offset: int) -> KafkaError:
    """A leader that has caught up meanwhile is asked again."""

    def limit(which: SpecialTimestamp) -> int:
        return list_offsets(cluster, {tp: which}, isolation_level="read_uncommitted")[tp].offset

    log_start, high_watermark = limit(EARLIEST), limit(LATEST)
    if log_start <= offset <= high_watermark:
        return BrokerError("Fetch: the offset was out of range, and is in range now", retriable=True)
    return OffsetOutOfRange(
        f"offset {offset} is out of range: the log has {log_start} to {high_watermark}",
        offset=offset,
        log_start=log_start,
        high_watermark=high_watermark,
        code=ErrorCode.OFFSET_OUT_OF_RANGE,
    )
