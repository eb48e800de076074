"""Consumer groups: what they are, who is in them.

A group is of one of several types, and each has a describing API of its own, which answers "not found" for the others:

    consumer   ConsumerGroupDescribe (69), KIP-848     from 4.0 on; asked first
    classic    DescribeGroups (15)                     a missing group is state "Dead", and an error from version 6 on
    others     ListGroups (16) at the coordinator      share and streams groups: type and state alone, KIP-932, KIP-1071
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from client.cluster import Cluster, CoordinatorKey
from client.errors import KafkaError, ProtocolFault, error_from_code
from client.protocol import ErrorCode
from client.protocol.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from client.retry import Deadline

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
_FIRST_WITH_TYPES: Final = 5

#: ConsumerGroupDescribe's ways to say "not one of mine": the broker has the protocol switched off, or no such group.
_NOT_A_CONSUMER_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A live member; `instance_id` is set for static members (KIP-345)."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `type`: "classic", "consumer", "share", "streams", or "" for a group that is not there (state "Dead").

    `members` is empty for types whose members this client cannot read: ask `has_members`.
    """

    group: str
    type: str
    state: str
    members: tuple[MemberDescription, ...] = ()

    @property
    def has_members(self) -> bool:
        """Whether anybody lives in it."""
        return bool(self.members) or self.state not in (EMPTY, DEAD)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as a listing has it; `type` and `state` are "" where the broker is too old to tell."""

    group: str
    type: str
    state: str
    protocol_type: str


def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """What the group's coordinator knows of it. Raises AuthorizationFailed, GroupError (a group id that is none)."""
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> GroupDescription:
        return (
            _describe_consumer_group(cluster, key, deadline)
            or _describe_classic_group(cluster, key, deadline)
            or _find_listed(cluster, key, deadline)
            or GroupDescription(group, "", DEAD)
        )

    return cluster.retry(attempt, coordinator=key)


def list_groups(cluster: Cluster) -> tuple[ListedGroup, ...]:
    """Every group of the cluster, by name. Each broker lists those that it coordinates, so every broker is asked.

    Raises SomeBrokersFailed, with the answers of the others.
    """
    groups: dict[str, ListedGroup] = {}
    for response in cluster.send_to_all(ListGroupsRequest(), check=_check_listing).whole("ListGroups").values():
        groups.update({listed.group: listed for listed in _listed(response)})
    return tuple(groups[name] for name in sorted(groups))


def _describe_consumer_group(cluster: Cluster, key: CoordinatorKey, deadline: Deadline) -> GroupDescription | None:
    connection = cluster.coordinator(key, deadline)
    if not connection.offers(ConsumerGroupDescribeRequest):
        return None
    version = connection.version_of(ConsumerGroupDescribeRequest)
    response = connection.call(ConsumerGroupDescribeRequest(group_ids=[key[1]]), version, deadline=deadline)
    found = next((entry for entry in response.groups if entry.group_id == key[1]), None)
    if found is None:
        raise _lacks_group(key[1], "ConsumerGroupDescribe")
    if found.error_code in _NOT_A_CONSUMER_GROUP:
        return None
    if found.error_code:
        raise error_from_code(found.error_code, "ConsumerGroupDescribe", detail=found.error_message, group=key[1])
    members = tuple(MemberDescription(m.member_id, m.client_id, m.client_host, m.instance_id) for m in found.members)
    return GroupDescription(key[1], "consumer", found.group_state, members)


def _describe_classic_group(cluster: Cluster, key: CoordinatorKey, deadline: Deadline) -> GroupDescription | None:
    connection = cluster.coordinator(key, deadline)
    version = connection.version_of(DescribeGroupsRequest)
    response = connection.call(DescribeGroupsRequest(groups=[key[1]]), version, deadline=deadline)
    found = next((entry for entry in response.groups if entry.group_id == key[1]), None)
    if found is None:
        raise _lacks_group(key[1], "DescribeGroups")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if found.error_code:
        raise error_from_code(found.error_code, "DescribeGroups", detail=found.error_message, group=key[1])
    if found.group_state == DEAD:
        return None
    members = tuple(
        MemberDescription(m.member_id, m.client_id, m.client_host, m.group_instance_id) for m in found.members
    )
    return GroupDescription(key[1], "classic", found.group_state, members)


def _find_listed(cluster: Cluster, key: CoordinatorKey, deadline: Deadline) -> GroupDescription | None:
    """A group of a type that has no describing API here, from its coordinator's listing."""
    connection = cluster.coordinator(key, deadline)
    version = connection.version_of(ListGroupsRequest)
    if version < _FIRST_WITH_TYPES:
        return None
    response = connection.call(ListGroupsRequest(), version, deadline=deadline)
    _check_listing(response)
    found = next((listed for listed in _listed(response) if listed.group == key[1]), None)
    return None if found is None else GroupDescription(found.group, found.type, found.state)


def _listed(response: ListGroupsResponse) -> list[ListedGroup]:
    return [
        ListedGroup(entry.group_id, entry.group_type.lower(), entry.group_state, entry.protocol_type)
        for entry in response.groups
    ]


def _check_listing(response: ListGroupsResponse) -> None:
    if response.error_code:
        raise error_from_code(response.error_code, "ListGroups")


def _lacks_group(group: str, what: str) -> KafkaError:
    return ProtocolFault(f"{what} answer lacks the group asked for", group=group)
