"""Classic groups, whose members assign the partitions, and what lists, describes and deletes groups."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import GROUP, MEMBER, error_policy
from kseg.client.protocol.fields import array, boolean, byte_string, int16, int32, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct


class JoinGroupRequest(Request["JoinGroupResponse"], key=11, versions="0-9", flexible="6+", client_waits="3+"):
    """JoinGroup (API key 11): enters a classic group, or its next generation; the response comes when all have joined.

    v1  a separate rebalance timeout (KIP-62)
    v2  has the throttle time; v3 throttles after the response
    v4  a new member first gets its id, with MEMBER_ID_REQUIRED, and joins again with it (KIP-394)
    v5  instance ids of static members (KIP-345)
    v6  flexible
    v7  the response has the protocol's type and name (KIP-559)
    v8  why the member joins, for the broker's log (KIP-800)
    v9  the leader may be asked to skip the assignment

    The member and the protocols it speaks.
    """

    # Without a member id, the member that the first request created stays until its session times out.
    ROUTE = Route(RequestTarget.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT)
    PERMISSIONS = permissions("READ group")
    ERRORS = error_policy(
        f"{GROUP} INCONSISTENT_GROUP_PROTOCOL INVALID_SESSION_TIMEOUT GROUP_MAX_SIZE_REACHED UNSUPPORTED_VERSION",
        MEMBER,
        REJOIN="MEMBER_ID_REQUIRED",
    )

    class JoinGroupRequestProtocol(Struct):
        """`metadata` is in the format of the members' protocol."""

        name: str = string("0+")
        metadata: bytes = byte_string("0+")

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Response, answers=JoinGroupRequest):
    """The generation; for its leader, all members."""

    class JoinGroupResponseMember(Struct):
        member_id: str = string("0+")
        group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = byte_string("0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")


class SyncGroupRequest(Request["SyncGroupResponse"], key=14, versions="0-5", flexible="4+", client_waits="2+"):
    """SyncGroup (API key 14): distributes a classic group's assignments: the leader sends all, each member receives its
    own.

    v1  has the throttle time; v2 throttles after the response
    v3  instance ids of static members (KIP-345)
    v4  flexible
    v5  protocol type and name, checked by the broker (KIP-559)

    From the leader: all members' assignments.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ group")
    ERRORS = error_policy(f"{GROUP} INCONSISTENT_GROUP_PROTOCOL", MEMBER)

    class SyncGroupRequestAssignment(Struct):
        member_id: str = string("0+")
        assignment: bytes = byte_string("0+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Response, answers=SyncGroupRequest):
    """The member's own assignment."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = byte_string("0+")


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+", client_waits="2+"):
    """Heartbeat (API key 12): keeps a member of a classic group alive.

    v1  has the throttle time; v2 throttles after the response
    v3  instance ids of static members (KIP-345)
    v4  flexible

    The member.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("READ group")
    ERRORS = error_policy(GROUP, MEMBER)

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, answers=HeartbeatRequest):
    """REBALANCE_IN_PROGRESS: the member has to rejoin."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+", client_waits="2+"):
    """LeaveGroup (API key 13): leaves a classic group.

    v1  has the throttle time; v2 throttles after the response
    v3  many members at once (KIP-345): `members`, where older versions have `member_id`
    v4  flexible
    v5  why they leave, for the broker's log (KIP-800)

    The members that leave.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.UNKNOWN_MEMBER_ID,))
    PERMISSIONS = permissions("READ group")
    ERRORS = error_policy(
        f"{GROUP} FENCED_INSTANCE_ID",
        # The member has left already.
        DONE="UNKNOWN_MEMBER_ID",
    )

    class MemberIdentity(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class LeaveGroupResponse(Response, answers=LeaveGroupRequest):
    """An error per member, from v3."""

    class MemberResponse(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+", client_waits="2+"):
    """ListGroups (API key 16): the groups that a broker coordinates: to see all, ask all brokers.

    v1  has the throttle time; v2 throttles after the response
    v3  flexible
    v4  states, also as a filter (KIP-518)
    v5  types (classic, consumer, share, streams), also as a filter (KIP-848)

    Empty filters match everything.
    """

    ROUTE = Route(RequestTarget.ALL_BROKERS)
    PERMISSIONS = permissions(
        "DESCRIBE group, DESCRIBE cluster", otherwise="DESCRIBE on cluster, or on group: others are left out"
    )
    ERRORS = error_policy(
        "COORDINATOR_LOAD_IN_PROGRESS CLUSTER_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED",
        # Every broker lists what it coordinates: there is no coordinator to find.
        AGAIN="COORDINATOR_NOT_AVAILABLE",
    )

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListGroupsResponse(Response, answers=ListGroupsRequest):
    """The groups."""

    class ListedGroup(Struct):
        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")


class DescribeGroupsRequest(
    Request["DescribeGroupsResponse"], key=15, versions="0-6", flexible="5+", client_waits="2+"
):
    """DescribeGroups (API key 15): state and members of classic groups.

    A group of the new protocol (KIP-848) has the state Dead here: use ConsumerGroupDescribe, or ListGroups for its
    type.

        v1  has the throttle time; v2 throttles after the response
        v3  authorized operations (KIP-430)
        v4  instance ids of static members (KIP-345)
        v5  flexible
        v6  GROUP_ID_NOT_FOUND with a message for a missing group, which is Dead without an error before (KIP-1043)

    Groups by id.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE group")
    ERRORS = error_policy(f"{GROUP} GROUP_ID_NOT_FOUND")

    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponse(Response, answers=DescribeGroupsRequest):
    """One description a group."""

    class DescribedGroup(Struct):
        """`protocol_data` is the assignor's name, in state Stable."""

        class DescribedGroupMember(Struct):
            """Metadata and assignment are in the format of the members' protocol, and set in state Stable."""

            member_id: str = string("0+")
            group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
            client_id: str = string("0+")
            client_host: str = string("0+")
            member_metadata: bytes = byte_string("0+")
            member_assignment: bytes = byte_string("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("6+", nullable="6+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        protocol_type: str = string("0+")
        protocol_data: str = string("0+")
        members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
        authorized_operations: int = int32("3+", default=-2147483648)

    DescribedGroupMember: TypeAlias = DescribedGroup.DescribedGroupMember

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+", client_waits="1+"):
    """DeleteGroups (API key 42): deletes groups without members, with their offsets (KIP-229).

    Goes to each group's coordinator.

    v1  throttles after the response
    v2  flexible

    Groups by id.
    """

    ROUTE = Route(
        RequestTarget.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.GROUP_ID_NOT_FOUND,)
    )
    PERMISSIONS = permissions("DELETE group")
    ERRORS = error_policy(f"{GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP")

    groups_names: list[str] = array(string, "0+")


class DeleteGroupsResponse(Response, answers=DeleteGroupsRequest):
    """An error per group."""

    class DeletableGroupResult(Struct):
        group_id: str = string("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
