"""Describes a group of each kind from its records: its state, its members, and when its offsets may expire.

    kind       metadata by                        offsets expire, counted from
    classic    GroupMetadata                  empty: since it is; consumers: the commit, of topics nobody subscribes to;
                                              other protocol types with members: never
    consumer   ConsumerGroupMetadata          the commit, of topics nobody subscribes to (KIP-848)
    streams    StreamsGroupMetadata           the commit, of topics that its topology does not read (KIP-1071)
    share      ShareGroupMetadata             it has none here (KIP-932)
    classic    offsets alone                  the commit: its sender is not a member (protocol type "")

States are the coordinator's own words; a coordinator that starts from these files would come to the same.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from kseg.client.protocol.embedded.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kseg.client.protocol.embedded.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from kseg.client.protocol.embedded.group_records import GroupMetadataKey
from kseg.client.protocol.embedded.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
)
from kseg.client.protocol.embedded.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from kseg.client.protocol.errors import ProtocolError
from kseg.etl.internal_topics.group_records import GroupRecords, as_commit

_MEMBER_STATES: Final = {0: "Stable", 1: "Unrevoked", 2: "Unreleased"}

Assigned = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member; None and empty where its kind of group has no such thing.

    assigned: partitions by topic (by the topic's id where no record has its name); of streams groups by subtopology.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack: str | None = None
    epoch: int | None = None
    state: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupKind:
    """See the module. `epoch` is a classic group's generation; `expires_from` gives what a commit's time counts from.

    expires_from: (topic, commit timestamp) to the time in ms from which retention counts; None: it does not expire.
    """

    kind: str | None
    state: str
    epoch: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: tuple[MemberState, ...] = ()
    expires_from: Callable[[str, int], int | None] = lambda topic, committed: committed


def kind_of(records: GroupRecords) -> GroupKind:
    """The type and state of a group, by the newest of its metadata records."""
    kinds: dict[type, Callable[[GroupRecords, Any], GroupKind]] = {
        GroupMetadataKey: _classic,
        ConsumerGroupMetadataKey: _consumer,
        ShareGroupMetadataKey: _share,
        StreamsGroupMetadataKey: _streams,
    }
    typed = [one for one in records.held.values() if type(one.key) in kinds]
    if typed:
        newest = max(typed, key=lambda one: one.offset)
        return kinds[type(newest.key)](records, newest.value)
    if records.held or any(records.pending.values()):
        return GroupKind("classic", "Empty", protocol_type="")
    return GroupKind(None, "Dead")


def _classic(_: GroupRecords, value: Any) -> GroupKind:
    opened = value.protocol_type == PROTOCOL_TYPE
    members, subscribed = [], set[str]()
    for one in value.members:
        topics: tuple[str, ...] = ()
        assigned: Assigned = {}
        if opened:
            try:
                topics = tuple(decode_subscription(one.subscription).topics)
                parts = decode_assignment(one.assignment).assigned_partitions
                assigned = {part.topic: list(part.partitions) for part in parts}
            except ProtocolError:
                opened = False  # as the coordinator, who then takes the group for subscribed to everything
        subscribed |= set(topics)
        members.append(
            MemberState(
                one.member_id,
                one.client_id,
                one.client_host,
                one.group_instance_id,
                session_timeout_ms=one.session_timeout,
                rebalance_timeout_ms=None if one.rebalance_timeout < 0 else one.rebalance_timeout,
                subscribed_topics=topics,
                assigned=assigned,
            )
        )

    def expires_from(topic: str, committed: int) -> int | None:
        if not value.protocol_type:
            return committed
        if not members:
            return committed if value.current_state_timestamp < 0 else value.current_state_timestamp
        return committed if opened and topic not in subscribed else None

    state = "Stable" if members else "Empty"
    return GroupKind(
        "classic",
        state,
        value.generation,
        value.protocol_type,
        value.protocol,
        value.leader,
        tuple(members),
        expires_from,
    )


def _member(member_id: str, metadata: Any, at: Any, **more: Any) -> MemberState:
    """A member by its metadata, at the epoch of its assignment; `at` is None before it has one."""
    return MemberState(
        member_id,
        metadata.client_id,
        metadata.client_host,
        rack=metadata.rack_id,
        epoch=None if at is None else at.member_epoch,
        state=None if at is None else _MEMBER_STATES.get(at.state, str(at.state)),
        **more,
    )


def _consumer(records: GroupRecords, value: Any) -> GroupKind:
    names = _topic_names(records)
    now = {one.key.member_id: one.value for one in records.of(ConsumerGroupCurrentMemberAssignmentKey)}
    members, subscribed = [], set[str]()
    for one in records.of(ConsumerGroupMemberMetadataKey):
        metadata, key = one.value, one.key
        at = now.get(key.member_id)
        subscribed |= set(metadata.subscribed_topic_names)
        members.append(
            _member(
                key.member_id,
                metadata,
                at,
                instance_id=metadata.instance_id,
                rebalance_timeout_ms=metadata.rebalance_timeout_ms,
                subscribed_topics=tuple(metadata.subscribed_topic_names),
                subscribed_regex=metadata.subscribed_topic_regex or None,
                assigned={} if at is None else _named(at.assigned_partitions, names),
                revoking={} if at is None else _named(at.partitions_pending_revocation, names),
            )
        )
    for expression in records.of(ConsumerGroupRegularExpressionKey):
        subscribed |= set(expression.value.topics)
    state = _state_of(records.of(ConsumerGroupTargetAssignmentMetadataKey), value.epoch, members)
    return GroupKind(
        "consumer",
        state,
        value.epoch,
        "consumer",
        members=tuple(members),
        expires_from=lambda topic, committed: None if topic in subscribed else committed,
    )


def _share(records: GroupRecords, value: Any) -> GroupKind:
    names = _topic_names(records)
    now = {one.key.member_id: one.value for one in records.of(ShareGroupCurrentMemberAssignmentKey)}
    members = []
    for one in records.of(ShareGroupMemberMetadataKey):
        metadata, key = one.value, one.key
        at = now.get(key.member_id)
        members.append(
            _member(
                key.member_id,
                metadata,
                at,
                subscribed_topics=tuple(metadata.subscribed_topic_names),
                assigned={} if at is None else _named(at.assigned_partitions, names),
            )
        )
    state = "Stable" if members else "Empty"
    return GroupKind("share", state, value.epoch, "share", members=tuple(members))


def _streams(records: GroupRecords, value: Any) -> GroupKind:
    now = {one.key.member_id: one.value for one in records.of(StreamsGroupCurrentMemberAssignmentKey)}
    members = []
    for one in records.of(StreamsGroupMemberMetadataKey):
        metadata, key = one.value, one.key
        at = now.get(key.member_id)
        members.append(
            _member(
                key.member_id,
                metadata,
                at,
                instance_id=metadata.instance_id,
                rebalance_timeout_ms=metadata.rebalance_timeout_ms,
                assigned={} if at is None else {task.subtopology_id: list(task.partitions) for task in at.active_tasks},
            )
        )
    read = {
        topic
        for one in records.of(StreamsGroupTopologyKey)
        for sub in one.value.subtopologies
        for topic in (*sub.source_topics, *(inner.name for inner in sub.repartition_source_topics))
    }
    state = _state_of(records.of(StreamsGroupTargetAssignmentMetadataKey), value.epoch, members)
    if members and not records.of(StreamsGroupTopologyKey):
        state = "NotReady"
    return GroupKind(
        "streams",
        state,
        value.epoch,
        "streams",
        members=tuple(members),
        expires_from=lambda topic, committed: None if topic in read else committed,
    )


def _state_of(target: list[Any], epoch: int, members: list[MemberState]) -> str:
    """The state of a group whose members move from one assignment to the next (KIP-848)."""
    aimed = target[-1].value.assignment_epoch if target else 0
    if not members:
        return "Empty"
    if epoch > aimed:
        return "Assigning"
    settled = all(member.state == "Stable" and member.epoch == aimed for member in members)
    return "Stable" if settled else "Reconciling"


def _topic_names(records: GroupRecords) -> dict[UUID, str]:
    """Names by topic id, from all records that have both."""
    names: dict[UUID, str] = {}
    for (topic, _), commit in records.commits().items():
        names[as_commit(commit.value).topic_id] = topic
    topics: Iterable[Any] = [
        *(topic for one in records.of(ConsumerGroupPartitionMetadataKey) for topic in one.value.topics),
        *(
            topic
            for one in records.of(ShareGroupStatePartitionMetadataKey)
            for topic in (*one.value.initializing_topics, *one.value.initialized_topics)
        ),
    ]
    return names | {topic.topic_id: topic.topic_name for topic in topics}


def _named(parts: Iterable[Any], names: dict[UUID, str]) -> Assigned:
    def name(topic_id: UUID) -> str:
        return names.get(topic_id) or base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")

    return {name(part.topic_id): list(part.partitions) for part in parts}
