"""Share groups: membership, acquiring and acknowledging records, and their offsets (KIP-932)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
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
from kseg.client.protocol.routing import RetrySafety, Route, Target
from kseg.client.protocol.schema import Request, Response, Struct
from kseg.client.protocol.shared_errors import DESCRIBED_GROUP, GROUP, NEW_MEMBER

_SHARE_SESSION: Final = error_policy(
    NEW_SESSION="SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED"
)
_SHARE: Final = (
    "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID "
    "NOT_LEADER_OR_FOLLOWER INVALID_RECORD_STATE KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)
_SHARE_OFFSETS: Final = (
    f"{GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND UNKNOWN_TOPIC_OR_PARTITION NON_EMPTY_GROUP "
    "KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)
#: Fetch sessions that a broker has dropped, or counts differently.
_SESSION: Final = error_policy(
    NEW_SESSION="FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR"
)


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], key=76, versions="1", flexible="0+"):
    """ShareGroupHeartbeat (API key 76): joins, stays in and leaves a share group (KIP-932).

    v1  the first stable one; v0 was an early access and is gone

    Epoch 0 joins, -1 leaves; null topics: nothing has changed since the last heartbeat.
    """

    ROUTE = Route(Target.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, READ group")
    ERRORS = error_policy(f"{GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED INVALID_REQUEST", NEW_MEMBER)

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    """The member's epoch and, when it changes, its assignment."""

    class Assignment(Struct):
        class TopicPartitions(Struct):
            topic_id: UUID = uuid("0+")
            partitions: list[int] = array(int32, "0+")

        topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

    TopicPartitions: TypeAlias = Assignment.TopicPartitions

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"], key=77, versions="1", flexible="0+"):
    """ShareGroupDescribe (API key 77): tells state and members of share groups (KIP-932).

    v1  the first stable one; v0 was an early access and is gone

    Groups by id.
    """

    ROUTE = Route(Target.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(DESCRIBED_GROUP)

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="0+"):
    """One description a group."""

    class DescribedGroup(Struct):
        class Member(Struct):
            class Assignment(Struct):
                class TopicPartitions(Struct):
                    topic_id: UUID = uuid("0+")
                    topic_name: str = string("0+")
                    partitions: list[int] = array(int32, "0+")

                topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

            member_id: str = string("0+")
            rack_id: str | None = string("0+", nullable="0+", default=None)
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array(string, "0+")
            assignment: Assignment = struct(Assignment, "0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-2147483648)

    Member: TypeAlias = DescribedGroup.Member
    Assignment: TypeAlias = Member.Assignment
    TopicPartitions: TypeAlias = Assignment.TopicPartitions

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class ShareFetchRequest(Request["ShareFetchResponse"], key=78, versions="1-2", flexible="0+"):
    """ShareFetch (API key 78): acquires records for a member of a share group, and acknowledges earlier ones (KIP-932).

    v1  the first stable one; v0 was an early access and is gone
    v2  acquires strictly by number of records (KIP-1206); renews acquisition locks (KIP-1222)

    What to acquire and what to acknowledge: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (from v2).
    """

    # Records that were handed out with the lost answer are locked until their time is over.
    ROUTE = Route(Target.LEADER, RetrySafety.UNSAFE)
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


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="0+"):
    """Records, and which of them are acquired."""

    class ShareFetchableTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("0+")
                leader_epoch: int = int32("0+")

            class AcquiredRecords(Struct):
                """`delivery_count` says how often they have been handed out."""

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

    # As for ShareFetch: the records stay locked until their time is over.
    ROUTE = Route(Target.LEADER, RetrySafety.UNSAFE)
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


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
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


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], key=90, versions="0-1", flexible="0+"
):
    """DescribeShareGroupOffsets (API key 90): tells where share groups start in partitions (KIP-932).

    v1  lag (KIP-1226)

    Groups; null topics ask for all of a group's.
    """

    ROUTE = Route(Target.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(_SHARE_OFFSETS)

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        class DescribeShareGroupOffsetsRequestTopic(Struct):
            topic_name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
            DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
        )

    DescribeShareGroupOffsetsRequestTopic: TypeAlias = (
        DescribeShareGroupOffsetsRequestGroup.DescribeShareGroupOffsetsRequestTopic
    )

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup, "0+")


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """Start offsets per partition, -1 where there is none."""

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        class DescribeShareGroupOffsetsResponseTopic(Struct):
            class DescribeShareGroupOffsetsResponsePartition(Struct):
                partition_index: int = int32("0+")
                start_offset: int = int64("0+")
                leader_epoch: int = int32("0+")
                lag: int = int64("1+", default=-1, ignorable=True)
                error_code: int = int16("0+")
                error_message: str | None = string("0+", nullable="0+", default=None)

            topic_name: str = string("0+")
            topic_id: UUID = uuid("0+")
            partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
                DescribeShareGroupOffsetsResponsePartition, "0+"
            )

        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic, "0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    DescribeShareGroupOffsetsResponseTopic: TypeAlias = (
        DescribeShareGroupOffsetsResponseGroup.DescribeShareGroupOffsetsResponseTopic
    )
    DescribeShareGroupOffsetsResponsePartition: TypeAlias = (
        DescribeShareGroupOffsetsResponseTopic.DescribeShareGroupOffsetsResponsePartition
    )

    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup, "0+")


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"], key=91, versions="0", flexible="0+"):
    """AlterShareGroupOffsets (API key 91): sets where a share group without members starts in partitions (KIP-932).

    New start offsets.
    """

    ROUTE = Route(Target.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ topic, READ group")
    ERRORS = error_policy(_SHARE_OFFSETS)

    class AlterShareGroupOffsetsRequestTopic(Struct):
        class AlterShareGroupOffsetsRequestPartition(Struct):
            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition, "0+")

    AlterShareGroupOffsetsRequestPartition: TypeAlias = (
        AlterShareGroupOffsetsRequestTopic.AlterShareGroupOffsetsRequestPartition
    )

    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic, "0+")


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """An error per partition."""

    class AlterShareGroupOffsetsResponseTopic(Struct):
        class AlterShareGroupOffsetsResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)

        topic_name: str = string("0+")
        topic_id: UUID = uuid("0+")
        partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition, "0+")

    AlterShareGroupOffsetsResponsePartition: TypeAlias = (
        AlterShareGroupOffsetsResponseTopic.AlterShareGroupOffsetsResponsePartition
    )

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic, "0+")


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"], key=92, versions="0", flexible="0+"):
    """DeleteShareGroupOffsets (API key 92): deletes where a share group without members starts in topics (KIP-932).

    Topics by name.
    """

    ROUTE = Route(
        Target.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    )
    PERMISSIONS = permissions("READ topic, DELETE group")
    ERRORS = error_policy(_SHARE_OFFSETS)

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic, "0+")


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    """An error per topic."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string("0+")
        topic_id: UUID = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic, "0+")
