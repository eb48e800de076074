"""Writing records, and the producer id that makes a write idempotent."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import ABORTABLE, TRANSACTION, error_policy
from kseg.client.protocol.fields import ByteString, array, int16, int32, int64, record_set, string, struct, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct


class ProduceRequest(
    Request["ProduceResponse"],
    key=0,
    versions="0-13",
    flexible="9+",
    deprecated="0-2",
    by_topic_name="0-12",
    first_transaction_protocol="0-11",
    client_waits="6+",
):
    """Produce (API key 0): appends record batches.

        v1   the response has the throttle time
        v2   message sets of magic 1 (KIP-32); below, magic 0
        v3   transactional id, record batches of magic 2 (KIP-98); the oldest version that brokers from 4.0 on take
        v5   the response has the log start offset
        v6   throttles after the response
        v7   zstd (KIP-110)
        v8   the response names the records that a batch was rejected for (KIP-467)
        v9   flexible
        v10  the response has the new leader when this broker is not it (KIP-951)
        v11  TRANSACTION_ABORTABLE (KIP-890)
        v12  a transactional request adds its partitions to the transaction by itself: `versions` decides when
        v13  topics by id (KIP-516)

    With `acks` 0 there is no response at all.

    Record sets per partition.
    """

    # With a producer id the leader drops duplicates; without one the records would be there twice.
    ROUTE = Route(RequestTarget.LEADER, RetrySafety.UNSAFE, note="yes for batches with a producer id")
    PERMISSIONS = permissions("WRITE topic, WRITE transactional id, IDEMPOTENT_WRITE cluster")
    ERRORS = error_policy(
        "CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID NOT_LEADER_OR_FOLLOWER "
        "LEADER_NOT_AVAILABLE REQUEST_TIMED_OUT INVALID_TOPIC_EXCEPTION NOT_ENOUGH_REPLICAS "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS TOPIC_AUTHORIZATION_FAILED "
        "CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_TIMESTAMP "
        "INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE "
        "KAFKA_STORAGE_ERROR INVALID_PRODUCER_ID_MAPPING CONCURRENT_TRANSACTIONS INVALID_REQUEST "
        "UNKNOWN_SERVER_ERROR",
        ABORTABLE,
        SPLIT="MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE",
        DONE="DUPLICATE_SEQUENCE_NUMBER",
        NEW_PRODUCER="OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID",
        # Also returned for an epoch that is only out of date, not fenced (KIP-588).
        ABORT="INVALID_PRODUCER_EPOCH INVALID_TXN_STATE",
    )

    class TopicProduceData(Struct):
        """A topic: by name up to v12, by id from v13."""

        class PartitionProduceData(Struct):
            """One partition's record set."""

            index: int = int32("0+")
            records: ByteString | None = record_set("0+", nullable="0+")

        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")

    PartitionProduceData: TypeAlias = TopicProduceData.PartitionProduceData

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")

    @property
    def is_answered(self) -> bool:
        """False with `acks` 0: the broker does not respond."""
        return self.acks != 0


class ProduceResponse(Response, answers=ProduceRequest):
    """The offset of each partition's batch, or its error."""

    class TopicProduceResponse(Struct):
        """A topic: by name up to v12, by id from v13."""

        class PartitionProduceResponse(Struct):
            """`log_append_time_ms` is -1 unless the topic has `message.timestamp.type=LogAppendTime`."""

            class BatchIndexAndErrorMessage(Struct):
                """A record because of which its batch was rejected."""

                batch_index: int = int32("8+")
                batch_index_error_message: str | None = string("8+", nullable="8+", default=None)

            class LeaderIdAndEpoch(Struct):
                """The current leader; -1 if it is unknown."""

                leader_id: int = int32("10+", default=-1)
                leader_epoch: int = int32("10+", default=-1)

            index: int = int32("0+")
            error_code: int = int16("0+")
            base_offset: int = int64("0+")
            log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
            error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)

        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")

    class NodeEndpoint(Struct):
        """The address of a broker named in `current_leader`."""

        node_id: int = int32("10+")
        host: str = string("10+")
        port: int = int32("10+")
        rack: str | None = string("10+", nullable="10+", default=None)

    BatchIndexAndErrorMessage: TypeAlias = TopicProduceResponse.PartitionProduceResponse.BatchIndexAndErrorMessage
    LeaderIdAndEpoch: TypeAlias = TopicProduceResponse.PartitionProduceResponse.LeaderIdAndEpoch
    PartitionProduceResponse: TypeAlias = TopicProduceResponse.PartitionProduceResponse

    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


class InitProducerIdRequest(
    Request["InitProducerIdResponse"], key=22, versions="0-5", flexible="2+", client_waits="1+"
):
    """InitProducerId (API key 22): a producer id and epoch to write with.

    For a transactional id: the same producer id with a higher epoch, which fences older producers. Their open
    transaction is ended first.

        v1  throttles after the response
        v2  flexible
        v3  the producer sends its present id and epoch, to continue after an error (KIP-360)
        v4  PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
        v5  TRANSACTION_ABORTABLE (KIP-890)

    Version 6 (two-phase commit, KIP-939) is unstable in 4.3 and left out, with the fields that it alone has.

    The producer; a null transactional id stands for an idempotent producer without transactions.
    """

    # The epoch is raised once more, which fences that of the lost response like all older ones.
    ROUTE = Route(RequestTarget.TRANSACTION_COORDINATOR, RetrySafety.SAME_EFFECT)
    PERMISSIONS = permissions("WRITE transactional id, IDEMPOTENT_WRITE cluster")
    ERRORS = error_policy(
        f"{TRANSACTION} CLUSTER_AUTHORIZATION_FAILED INVALID_TRANSACTION_TIMEOUT INVALID_REQUEST", ABORTABLE
    )

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response, answers=InitProducerIdRequest):
    """The id and epoch to write with."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
