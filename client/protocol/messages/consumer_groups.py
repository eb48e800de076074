"""Consumer groups whose coordinator assigns the partitions (KIP-848)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import DESCRIBED_GROUP, GROUP, NEW_MEMBER, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string, struct, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"], key=68, versions="0-1", flexible="0+"):
    """ConsumerGroupHeartbeat (API key 68): joins, stays in and leaves a group of the new protocol (KIP-848).

    v1  topics by a regular expression; the member generates its own id (KIP-1082)

    Null, or -1 for the rebalance timeout, means unchanged since the last heartbeat; the first one has all fields.
    `member_epoch` 0 joins, -1 leaves, -2 leaves temporarily (a static member that will rejoin).

    The member, its subscription, and the partitions that it owns.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, READ group")
    ERRORS = error_policy(
        f"{GROUP} INVALID_REQUEST UNSUPPORTED_ASSIGNOR GROUP_MAX_SIZE_REACHED "
        "TOPIC_AUTHORIZATION_FAILED INVALID_REGULAR_EXPRESSION UNSUPPORTED_VERSION",
        NEW_MEMBER,
    )

    class TopicPartitions(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatResponse(Response, answers=ConsumerGroupHeartbeatRequest):
    """The member's epoch and, when it changes, its assignment."""

    class Assignment(Struct):
        """All partitions that the member may read now."""

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


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"], key=69, versions="0-1", flexible="0+"):
    """ConsumerGroupDescribe (API key 69): state and members of groups of the new protocol (KIP-848).

    A classic group answers GROUP_ID_NOT_FOUND.

    v1  member type: -1 unknown, 0 classic, 1 consumer (KIP-1099)

    Groups by id.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(DESCRIBED_GROUP)

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class ConsumerGroupDescribeResponse(Response, answers=ConsumerGroupDescribeRequest):
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
            instance_id: str | None = string("0+", nullable="0+", default=None)
            rack_id: str | None = string("0+", nullable="0+", default=None)
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array(string, "0+")
            subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
            assignment: Assignment = struct(Assignment, "0+")
            target_assignment: Assignment = struct(Assignment, "0+")
            member_type: int = int8("1+", default=-1, ignorable=True)

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
