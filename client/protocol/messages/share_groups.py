"""Share groups: membership, description, and their offsets (KIP-932)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import DESCRIBED_GROUP, GROUP, NEW_MEMBER, error_policy
from kseg.client.protocol.fields import (
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct

_SHARE_OFFSETS: Final = (
    f"{GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND UNKNOWN_TOPIC_OR_PARTITION NON_EMPTY_GROUP "
    "KAFKA_STORAGE_ERROR INVALID_REQUEST UNKNOWN_SERVER_ERROR"
)


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], key=76, versions="1", flexible="0+"):
    """ShareGroupHeartbeat (API key 76): joins, stays in and leaves a share group (KIP-932).

    v1  the first stable one; v0 was an early access and is gone

    Epoch 0 joins, -1 leaves; null topics: nothing has changed since the last heartbeat.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, READ group")
    ERRORS = error_policy(f"{GROUP} TOPIC_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED INVALID_REQUEST", NEW_MEMBER)

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Response, answers=ShareGroupHeartbeatRequest):
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
    """ShareGroupDescribe (API key 77): returns state and members of share groups (KIP-932).

    v1  the first stable one; v0 was an early access and is gone

    Groups by id.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(DESCRIBED_GROUP)

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(Response, answers=ShareGroupDescribeRequest):
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


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], key=90, versions="0-1", flexible="0+"
):
    """DescribeShareGroupOffsets (API key 90): returns where share groups start in partitions (KIP-932).

    v1  lag (KIP-1226)

    Groups; null topics ask for all of a group's.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
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


class DescribeShareGroupOffsetsResponse(Response, answers=DescribeShareGroupOffsetsRequest):
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

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
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


class AlterShareGroupOffsetsResponse(Response, answers=AlterShareGroupOffsetsRequest):
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
        RequestTarget.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    )
    PERMISSIONS = permissions("READ topic, DELETE group")
    ERRORS = error_policy(_SHARE_OFFSETS)

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic, "0+")


class DeleteShareGroupOffsetsResponse(Response, answers=DeleteShareGroupOffsetsRequest):
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
