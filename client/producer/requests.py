"""Produce requests from record sets, and their responses partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kseg.client.cluster.metadata import Leader, LeaderHint, leader_hint
from kseg.client.errors import InvalidRecord, KafkaError, error_from_code
from kseg.client.producer.batch import Batch
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.client.protocol.partition import TopicPartition, by_topic

_FIRST_WITH_TOPIC_IDS: Final = 13
_FIRST_WITH_TRANSACTIONS: Final = 3


class PartitionResponse(NamedTuple):
    """One partition's part of a response; -1 where the version has no such field, or there is no value."""

    tp: TopicPartition
    error_code: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str | None
    record_errors: dict[int, str]
    leader: LeaderHint | None
    """The partition's new leader, if the response names one (KIP-951)."""


def produce_request(
    version: int,
    sets: Mapping[TopicPartition, bytes],
    leaders: Mapping[TopicPartition, Leader],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """One broker's request: many partitions, one record set each. `timeout_ms`: how long the broker waits for replicas.

    Raises ValueError for other `acks` than -1, 0 and 1: a broker would reject them (INVALID_REQUIRED_ACKS).
    """
    if acks not in (-1, 0, 1):
        raise ValueError(f"acks={acks}: only -1 (all), 0 and 1 are known")
    topics = []
    for name, partitions in by_topic(sets).items():
        topic = ProduceRequest.TopicProduceData(
            partition_data=[
                ProduceRequest.PartitionProduceData(index=tp.partition, records=sets[tp]) for tp in partitions
            ]
        )
        topic_id = leaders[partitions[0]].topic_id
        if version >= _FIRST_WITH_TOPIC_IDS and topic_id is not None:
            topic.topic_id = topic_id
        else:
            topic.name = name
        topics.append(topic)
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)
    if version >= _FIRST_WITH_TRANSACTIONS or transactional_id is not None:
        request.transactional_id = transactional_id
    return request


def read_response(response: ProduceResponse, leaders: Mapping[TopicPartition, Leader]) -> Iterator[PartitionResponse]:
    """The partitions of a response; `leaders` has the topics' ids."""
    names = {leader.topic_id: tp.topic for tp, leader in leaders.items() if leader.topic_id is not None}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for entry in topic.partition_responses:
            tp = TopicPartition(name, entry.index)
            yield PartitionResponse(
                tp,
                entry.error_code,
                entry.base_offset,
                entry.log_append_time_ms,
                entry.log_start_offset,
                entry.error_message,
                {record.batch_index: record.batch_index_error_message or "" for record in entry.record_errors},
                leader_hint(tp, entry.current_leader, response.node_endpoints),
            )


def typed_error(answer: PartitionResponse, batch: Batch) -> KafkaError:
    """The error of a batch's deliveries."""
    error = error_from_code(
        answer.error_code,
        "Produce",
        detail=answer.message,
        topic=batch.tp.topic,
        partition=batch.tp.partition,
    )
    if isinstance(error, InvalidRecord):
        error.record_errors = answer.record_errors
    return error
