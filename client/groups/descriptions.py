"""Describes groups and their members.

A group has one of several types. Each type has its own API, which returns "not found" for groups of other types:

    consumer   ConsumerGroupDescribe (69), KIP-848     from 4.0 on; requested first
    classic    DescribeGroups (15)                     a missing group has the state "Dead"; an error from version 6 on
    share      ShareGroupDescribe (77), KIP-932        from 4.1 on
    streams    StreamsGroupDescribe (89), KIP-1071     from 4.1 on
    others     ListGroups (16) at the coordinator      only type and state

`client.admin` changes groups; `client.membership` implements members.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.results import Results, ask_all_brokers
from kseg.client.errors import KafkaError, ProtocolFault, UnsupportedVersion, error_from_code
from kseg.client.protocol.embedded.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from kseg.client.protocol.enums import AclOperation, authorized_operations
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.errors import ProtocolError
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from kseg.client.protocol.messages.groups import DescribeGroupsRequest, ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
_FIRST_WITH_OPERATIONS: Final = 3
_FIRST_WITH_STATES: Final = 4
_FIRST_WITH_TYPES: Final = 5

#: A describing API's ways to say "not one of mine": the broker has the protocol switched off, or no such group.
_NOT_OF_THIS_TYPE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A live member; `instance_id` is set for static members (KIP-345).

    `assignment`: the member's partitions. None if they are unknown: for a streams member (see `tasks`), and for a
    classic member of another protocol type, whose `metadata` and `assigned` bytes are not decoded.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack: str | None = None
    epoch: int = -1
    assignment: frozenset[TopicPartition] | None = None
    tasks: frozenset[tuple[str, int]] = frozenset()
    metadata: bytes = field(default=b"", repr=False)
    assigned: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `type`: "classic", "consumer", "share", "streams", or "" for a missing group (state "Dead").

    `members` is empty for types whose members this client cannot decode, and if the client may not describe all topics
    that they read: use `has_members`. `operations`: operations that the client's principal may perform on the group;
    None if not requested or unknown.
    """

    group: str
    type: str
    state: str
    members: tuple[MemberDescription, ...] = ()
    protocol_type: str = ""
    assignor: str = ""
    epoch: int = -1
    operations: frozenset[AclOperation] | None = None

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return bool(self.members) or self.state not in (EMPTY, DEAD)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a response to ListGroups; `type` and `state` are "" if the broker is too old."""

    group: str
    type: str
    state: str
    protocol_type: str


def describe_group(cluster: Cluster, group: str, *, operations: bool = False) -> GroupDescription:
    """The description of a group by its coordinator. Raises AuthorizationFailed, GroupError (an invalid group id)."""
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> GroupDescription:
        connection = cluster.coordinator(key, deadline)
        return (
            _describe_new_group(connection, "consumer", group, operations, deadline)
            or _describe_classic_group(connection, group, operations, deadline)
            or _describe_new_group(connection, "share", group, operations, deadline)
            or _describe_new_group(connection, "streams", group, operations, deadline)
            or _find_listed(connection, group, deadline)
            or GroupDescription(group, "", DEAD)
        )

    return cluster.retry(attempt, coordinator=key)


def describe_groups(
    cluster: Cluster, groups: Collection[str], *, operations: bool = False
) -> Results[str, GroupDescription]:
    """`describe_group` for many groups: each group's description, or its error."""
    results: Results[str, GroupDescription] = Results()
    for group in dict.fromkeys(groups):
        try:
            results[group] = describe_group(cluster, group, operations=operations)
        except KafkaError as error:
            results[group] = error
    return results


def list_groups(
    cluster: Cluster, *, states: Collection[str] = (), types: Collection[str] = ()
) -> Results[int, tuple[ListedGroup, ...]]:
    """The groups that each broker coordinates, by broker; a broker that fails has its error.

    `states` ("Stable", "Empty" …, from Kafka 2.6 on) and `types` ("classic", "consumer" …, from 3.8 on) are filters;
    without them, all groups are returned. A broker that is too old for a filter has the error UnsupportedVersion.
    """

    def build(version: int) -> ListGroupsRequest:
        if (states and version < _FIRST_WITH_STATES) or (types and version < _FIRST_WITH_TYPES):
            raise UnsupportedVersion(f"the broker is too old to filter groups by {'type' if types else 'state'}")
        return ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    return ask_all_brokers(
        cluster, ListGroupsRequest, lambda _, response: tuple(_listed(response)), check=_check_listing, build=build
    )


def _describe_new_group(
    connection: BrokerConnection, kind: str, group: str, operations: bool, deadline: Deadline
) -> GroupDescription | None:
    request_class = _describing_request(kind)
    if not connection.offers(request_class):
        return None
    version = connection.version_of(request_class)
    request = request_class(group_ids=[group], include_authorized_operations=operations)
    response: Any = connection.call(request, version, deadline=deadline)
    what = request_class.__name__.removesuffix("Request")
    found = next((entry for entry in response.groups if entry.group_id == group), None)
    if found is None:
        raise _lacks_group(group, what)
    if found.error_code in _NOT_OF_THIS_TYPE:
        return None
    # Without DESCRIBE on a topic that members read, brokers leave out the members, and of streams groups all else too.
    may_not_see = found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if may_not_see and not found.group_state and (listed := _find_listed(connection, group, deadline)) is not None:
        return listed
    if found.error_code and not (may_not_see and found.group_state):
        raise error_from_code(found.error_code, what, detail=found.error_message, group=group)
    return GroupDescription(
        group,
        kind,
        found.group_state,
        tuple(_member(member) for member in found.members),
        assignor=getattr(found, "assignor_name", ""),
        epoch=found.group_epoch,
        operations=authorized_operations(found.authorized_operations),
    )


def _describing_request(kind: str) -> Any:
    """The request of a type's API. Groups of the last two types are rare and requested last, so their messages are
    imported only here."""
    if kind == "share":
        from kseg.client.protocol.messages.share_groups import ShareGroupDescribeRequest

        return ShareGroupDescribeRequest
    if kind == "streams":
        from kseg.client.protocol.messages.streams_groups import StreamsGroupDescribeRequest

        return StreamsGroupDescribeRequest
    return ConsumerGroupDescribeRequest


def _member(member: Any) -> MemberDescription:
    """A member of a group of one of the new protocols."""
    topics = getattr(member.assignment, "topic_partitions", None)
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        getattr(member, "instance_id", None),
        rack=member.rack_id,
        epoch=member.member_epoch,
        assignment=None
        if topics is None
        else frozenset(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions),
        tasks=frozenset(
            (task.subtopology_id, number)
            for task in getattr(member.assignment, "active_tasks", ())
            for number in task.partitions
        ),
    )


def _describe_classic_group(
    connection: BrokerConnection, group: str, operations: bool, deadline: Deadline
) -> GroupDescription | None:
    version = connection.version_of(DescribeGroupsRequest)
    request = DescribeGroupsRequest(groups=[group])
    if version >= _FIRST_WITH_OPERATIONS:
        request.include_authorized_operations = operations
    response = connection.call(request, version, deadline=deadline)
    found = next((entry for entry in response.groups if entry.group_id == group), None)
    if found is None:
        raise _lacks_group(group, "DescribeGroups")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if found.error_code:
        raise error_from_code(found.error_code, "DescribeGroups", detail=found.error_message, group=group)
    if found.group_state == DEAD:
        return None
    consumers = found.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group,
        "classic",
        found.group_state,
        tuple(
            MemberDescription(
                member.member_id,
                member.client_id,
                member.client_host,
                member.group_instance_id,
                assignment=_assignment(member.member_assignment) if consumers else None,
                metadata=bytes(member.member_metadata),
                assigned=bytes(member.member_assignment),
            )
            for member in found.members
        ),
        protocol_type=found.protocol_type,
        assignor=found.protocol_data,
        operations=authorized_operations(found.authorized_operations),
    )


def _assignment(data: bytes) -> frozenset[TopicPartition] | None:
    """A classic consumer's assigned partitions; None for bytes that are not in the consumer protocol."""
    try:
        topics = decode_assignment(data).assigned_partitions
    except ProtocolError:
        return None
    return frozenset(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)


def _find_listed(connection: BrokerConnection, group: str, deadline: Deadline) -> GroupDescription | None:
    """A group of a type without its own API in this client, from its coordinator's ListGroups response."""
    version = connection.version_of(ListGroupsRequest)
    if version < _FIRST_WITH_TYPES:
        return None
    response = connection.call(ListGroupsRequest(), version, deadline=deadline)
    _check_listing(response)
    found = next((listed for listed in _listed(response) if listed.group == group), None)
    return (
        None if found is None else GroupDescription(group, found.type, found.state, protocol_type=found.protocol_type)
    )


def _listed(response: ListGroupsResponse) -> list[ListedGroup]:
    return [
        ListedGroup(entry.group_id, entry.group_type.lower(), entry.group_state, entry.protocol_type)
        for entry in response.groups
    ]


def _check_listing(response: ListGroupsResponse) -> None:
    if response.error_code:
        raise error_from_code(response.error_code, "ListGroups")


def _lacks_group(group: str, what: str) -> KafkaError:
    return ProtocolFault(f"{what} response lacks the requested group", group=group)
