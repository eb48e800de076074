"""Records of share groups: acquired with a fetch, then acknowledged (KIP-932)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import error_policy
from kseg.client.protocol.fields import (
    ByteString,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    record_set,
    string,
    struct,
    uuid,
)
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct

_SHARE_SESSION: Final = error_policy(
    NEW_SESSION="SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED"
)
_SHARE: Final = (
    "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID "
    "NOT_LEADER_OR_FOLLOWER INVALID_RECORD_STATE KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)


class ShareFetchRequest(Request["ShareFetchResponse"], key=78, versions="1-2", flexible="0+"):
    """ShareFetch (API key 78): acquires records for a member of a share group, and acknowledges earlier ones (KIP-932).

    v1  the first stable one; v0 was an early access and is gone
    v2  acquires strictly by number of records (KIP-1206); renews acquisition locks (KIP-1222)

    What to acquire and what to acknowledge: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (from v2).
    """

    # Records that were acquired with the lost response stay locked until their acquisition lock expires.
    ROUTE = Route(RequestTarget.LEADER, RetrySafety.UNSAFE)
    PERMISSIONS = permissions("READ topic, READ group")
    ERRORS = error_policy(f"{_SHARE} CORRUPT_MESSAGE", _SHARE_SESSION)

    class FetchTopic(Struct):
        class FetchPartition(Struct):
            class AcknowledgementBatch(Struct):
                """One type for the whole range, or one for each offset in it."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                acknowledge_types: list[int] = array(int8, "0+")

            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[FetchPartition] = array(FetchPartition, "0+")

    class ForgottenTopic(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    FetchPartition: TypeAlias = FetchTopic.FetchPartition
    AcknowledgementBatch: TypeAlias = FetchPartition.AcknowledgementBatch

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+")


class ShareFetchResponse(Response, answers=ShareFetchRequest):
    """Records, and which of them are acquired."""

    class ShareFetchableTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("0+")
                leader_epoch: int = int32("0+")

            class AcquiredRecords(Struct):
                """`delivery_count`: how often they have been delivered."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                delivery_count: int = int16("0+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            acknowledge_error_code: int = int16("0+")
            acknowledge_error_message: str | None = string("0+", nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")
            records: ByteString | None = record_set("0+", nullable="0")
            acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)

    PartitionData: TypeAlias = ShareFetchableTopicResponse.PartitionData
    LeaderIdAndEpoch: TypeAlias = PartitionData.LeaderIdAndEpoch
    AcquiredRecords: TypeAlias = PartitionData.AcquiredRecords

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], key=79, versions="1-2", flexible="0+"):
    """ShareAcknowledge (API key 79): acknowledges records that a member of a share group has acquired (KIP-932).

    v1  the first stable one; v0 was an early access and is gone
    v2  renews acquisition locks (KIP-1222)

    Per partition: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (from v2).
    """

    # As for ShareFetch: the records stay locked until their acquisition lock expires.
    ROUTE = Route(RequestTarget.LEADER, RetrySafety.UNSAFE)
    PERMISSIONS = permissions("READ topic, READ group")
    ERRORS = error_policy(_SHARE, _SHARE_SESSION)

    class AcknowledgeTopic(Struct):
        class AcknowledgePartition(Struct):
            class AcknowledgementBatch(Struct):
                """One type for the whole range, or one for each offset in it."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                acknowledge_types: list[int] = array(int8, "0+")

            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "0+")

    AcknowledgePartition: TypeAlias = AcknowledgeTopic.AcknowledgePartition
    AcknowledgementBatch: TypeAlias = AcknowledgePartition.AcknowledgementBatch

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "0+")


class ShareAcknowledgeResponse(Response, answers=ShareAcknowledgeRequest):
    """An error per partition."""

    class ShareAcknowledgeTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("0+")
                leader_epoch: int = int32("0+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)

    PartitionData: TypeAlias = ShareAcknowledgeTopicResponse.PartitionData
    LeaderIdAndEpoch: TypeAlias = PartitionData.LeaderIdAndEpoch

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")
