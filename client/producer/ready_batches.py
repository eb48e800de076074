"""Send batches that are already encoded to their partitions' leaders, and wait for the responses: for tools and tests.

This is not a producer. A caller that gives batches a producer id and sequence numbers (`segment_reader.encode`) has to
count the sequence numbers itself. After an error, it has to find out what was appended before it numbers another batch.
`KafkaProducer` does all of this: use it to send records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.leaders import Answered, ask_leaders
from kseg.client.cluster.metadata import Leader
from kseg.client.errors import OutcomeUnknown
from kseg.client.producer.requests import produce_request, read_response
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.wire.broker import BrokerConnection

_ALL_IN_SYNC: Final = -1
_MAGIC: Final = 16  # its position in a batch
_PRODUCER_ID: Final = slice(43, 51)
#: The leader has appended the batch, and its replicas have not in time.
_ON_THE_LEADER: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class Produced(NamedTuple):
    """The place at which a batch was appended: its first offset (-1: the leader had the batch already, and no longer
    knows where).

    `log_append_time` is in ms, and -1 unless the topic has `message.timestamp.type=LogAppendTime`.
    """

    base_offset: int
    log_append_time: int


def produce(cluster: Cluster, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, Produced]:
    """Append encoded batches, one for each partition, by requests to the partitions' leaders.

    If a response is lost, or replicas do not follow in time, batches without a producer id are not sent again, because
    they could be appended twice.

    Raises:
        OutcomeUnknown: it is not known whether a batch without a producer id was appended. Fenced, and the others that
        `client.errors.error_from_code` makes from a partition's error code.
    """

    def version_of(connection: BrokerConnection, leaders: Mapping[TopicPartition, Leader]) -> int:
        return connection.version_of(
            ProduceRequest,
            topic_ids_known=all(leader.topic_id is not None for leader in leaders.values()),
            transactional=False,
        )

    def build(version: int, leaders: Mapping[TopicPartition, Leader]) -> list[ProduceRequest]:
        request = produce_request(
            version,
            {tp: batches[tp] for tp in leaders},
            leaders,
            acks=_ALL_IN_SYNC,
            timeout_ms=cluster.config.request_timeout_ms,
            transactional_id=None,
        )
        return [request]

    def read(
        responses: Sequence[ProduceResponse], leaders: Mapping[TopicPartition, Leader]
    ) -> Iterator[Answered[Produced]]:
        for answer in read_response(responses[0], leaders):
            code = ErrorCode.of(answer.error_code)
            if code in _ON_THE_LEADER and not _has_producer_id(batches[answer.tp]):
                raise OutcomeUnknown(
                    f"Produce: {code.name}: the leader may have appended the batch",
                    topic=answer.tp.topic,
                    partition=answer.tp.partition,
                )
            duplicate = answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            produced = Produced(answer.base_offset, answer.log_append_time)
            yield Answered(answer.tp, 0 if duplicate else answer.error_code, produced, answer.leader)

    repeatable = all(_has_producer_id(batch) for batch in batches.values())
    return ask_leaders(cluster, batches, ProduceRequest, build, read, version_of, repeatable=repeatable)


def _has_producer_id(batch: bytes) -> bool:
    """Whether a leader recognises a duplicate of the batch: magic 2 or later, with a producer id in its header."""
    return batch[_MAGIC] >= 2 and int.from_bytes(batch[_PRODUCER_ID], "big", signed=True) >= 0
