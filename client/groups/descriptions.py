"""Groups: what they are, who is in them.

A group is of one of several types, and each has a describing API of its own, which answers "not found" for the others:

    consumer   ConsumerGroupDescribe (69), KIP-848     from 4.0 on; asked first
    classic    DescribeGroups (15)                     a missing group is state "Dead", and an error from version 6 on
    share      ShareGroupDescribe (77), KIP-932        from 4.1 on
    streams    StreamsGroupDescribe (89), KIP-1071     from 4.1 on
    others     ListGroups (16) at the coordinator      type and state alone

What changes groups: `client.admin`. Being a member of one: `client.membership`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.results import Results, ask_all_brokers
from kseg.client.cluster.retry import Deadline
from kseg.client.errors import KafkaError, ProtocolFault, UnsupportedVersion, error_from_code
from kseg.client.protocol.embedded.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from kseg.client.protocol.enums import AclOperation, authorized_operations
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.errors import ProtocolError
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from kseg.client.protocol.messages.groups import DescribeGroupsRequest, ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.partition import TopicPartition
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

    `assignment`: the partitions that it reads, None where that is unknown: a streams member, whose tasks are in
    `tasks`, or a classic member of another protocol type, whose `metadata` and `assigned` bytes are not interpreted.
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
    """A group. `type`: "classic", "consumer", "share", "streams", or "" for a group that is not there (state "Dead").

    `members` is empty for types whose members this client cannot read: ask `has_members`. `operations`: what the asker
    may do with the group, None if not requested or not known.
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
        """Whether it has members."""
        return bool(self.members) or self.state not in (EMPTY, DEAD)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as a listing has it; `type` and `state` are "" where the broker is too old."""

    group: str
    type: str
    state: str
    protocol_type: str


def describe_group(cluster: Cluster, group: str, *, operations: bool = False) -> GroupDescription:
    """What the group's coordinator knows of it. Raises AuthorizationFailed, GroupError (a group id that is none)."""
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
    """`describe_group` for many: each group's description, or its error."""
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
    """The groups that each broker coordinates, by broker: every one is asked, and each has its own error.

    `states` ("Stable", "Empty" …, from Kafka 2.6 on) and `types` ("classic", "consumer" …, from 3.8 on) are filters:
    none given lets every group pass. A broker that is too old for one has the error UnsupportedVersion.
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
    if found.error_code:
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
    """The request of a type's describing API. Groups of the last two types are rare, and asked for last: their messages
    are imported then."""
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
    """What a classic consumer's leader has assigned; None for bytes that are none of the consumers' protocol."""
    try:
        topics = decode_assignment(data).assigned_partitions
    except ProtocolError:
        return None
    return frozenset(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)


def _find_listed(connection: BrokerConnection, group: str, deadline: Deadline) -> GroupDescription | None:
    """A group of a type that has no describing API here, from its coordinator's listing."""
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
