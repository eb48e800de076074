"""Produce requests from record sets, and their responses partition by partition.

The version of Produce decides the format: message sets of magic 0 in v0 and v1, of magic 1 in v2, else a batch. Old
formats have no place for headers, sequences and transactions, and zstd may be sent from v7 on (KIP-110). What a broker
does not support is rejected here: it would fail there without a reason, or be written without its headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kseg.client.cluster.metadata import Leader, LeaderHint, leader_hint
from kseg.client.errors import InvalidRecord, KafkaError, UnsupportedVersion, error_from_code
from kseg.client.producer.batch import NO_SEQUENCE, ProducerBatch
from kseg.client.producer.config import ProducerConfig
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.encode.batches import encode_message_set
from kseg.segment_reader.encode.bodies import batch_of

_FIRST_WITH_MAGIC_1: Final = 2
_FIRST_WITH_MAGIC_2: Final = 3


def record_set(batch: ProducerBatch, version: int, config: ProducerConfig, *, transactional: bool) -> bytes:
    """The bytes of the partition's record set. Raises UnsupportedVersion."""
    if version < BY_NAME[config.compression].min_produce_version:
        raise _too_old(batch, version, f"takes no {config.compression}: choose another compression.type")
    if version >= _FIRST_WITH_MAGIC_2:
        return batch_of(
            batch.body,
            batch.packed(config.compression, config.compression_level),
            config.compression,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.sequence,
            transactional=transactional,
        )
    if batch.sequence != NO_SEQUENCE or transactional:
        raise _too_old(batch, version, "has no sequence numbers: set enable.idempotence=false")
    records = batch.records()
    if any(record.headers for record in records):
        raise _too_old(batch, version, "stores no headers: send records without")
    # Offsets in a request count from 0, also with magic 0: the broker assigns the real ones.
    magic = 1 if version >= _FIRST_WITH_MAGIC_1 else 0
    return encode_message_set(records, magic=magic, compression=config.compression)


def _too_old(batch: ProducerBatch, version: int, what: str) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"the broker supports Produce up to v{version} and {what}", topic=batch.tp.topic, partition=batch.tp.partition
    )


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


def typed_error(answer: PartitionResponse, batch: ProducerBatch) -> KafkaError:
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
