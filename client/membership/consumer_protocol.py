"""The protocol of consumers in a classic group (protocol type "consumer"): subscriptions and assignments.

The formats are Kafka's (`client.protocol.embedded.consumer_protocol`), so other clients and Kafka's tools can read
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kseg.client.errors import GroupError, ProtocolFault
from kseg.client.membership.assignor import Assignment, Assignor, Racks, Subscription
from kseg.client.membership.classic_session import Generation, Joiner
from kseg.client.protocol.embedded.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kseg.client.protocol.errors import ProtocolError
from kseg.client.protocol.partition import TopicPartition

#: The partition counts of topics (0: no such topic), and the racks of their replicas.
Lookup = Callable[[Collection[str]], tuple[dict[str, int], Racks]]


@dataclass(frozen=True, slots=True)
class SyncedAssignment:
    """The result of the last SyncGroup: assigned partitions; on the leader, the partition counts that it used."""

    partitions: tuple[TopicPartition, ...]
    counts: Mapping[str, int] | None


class ConsumerProtocol:
    """A consumer's `GroupProtocol`. The member sets `topics`, `owned` and `generation` before it joins."""

    protocol_type: str = PROTOCOL_TYPE

    def __init__(self, assignors: Sequence[Assignor], lookup: Lookup, rack: str | None) -> None:
        self.assignors: Final = {assignor.name: assignor for assignor in assignors}
        #: Members revoke all partitions before they rejoin, unless all assignors are cooperative.
        self.cooperative: Final = all(assignor.cooperative for assignor in assignors)
        self.topics: tuple[str, ...] = ()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.generation = -1
        self.given: SyncedAssignment | None = None
        self._lookup = lookup
        self._rack = rack
        self._counts: dict[str, int] | None = None

    def metadata(self) -> list[tuple[str, bytes]]:
        return [(name, self._subscription(assignor)) for name, assignor in self.assignors.items()]

    def assign(self, protocol: str, joiners: Sequence[Joiner], *, skip: bool) -> dict[str, bytes]:
        members = {joiner.member_id: read_subscription(joiner) for joiner in joiners}
        self._counts, racks = self._lookup(
            {topic for subscription in members.values() for topic in subscription.topics}
        )
        if skip:
            return {}
        assignor = self._assignor(protocol)
        existing = {topic: count for topic, count in self._counts.items() if count}
        given = assignor.assign(existing, members, racks)
        unknown = sorted(set(given) - set(members))
        if unknown:
            raise GroupError(f"assignor {protocol} assigns partitions to unknown members: {unknown}")
        if self.cooperative:
            _check_cooperative(protocol, members, given)
        return {
            member: encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[
                        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
                        for topic, numbers in _by_topic(given.get(member, ())).items()
                    ],
                    user_data=assignor.assignment_data(member),
                )
            )
            for member in members
        }

    def assigned(self, generation: Generation, data: bytes, *, leader: bool) -> None:
        try:
            read = decode_assignment(data)
        except ProtocolError as error:
            raise ProtocolFault(f"the assignment cannot be read: {error}") from error
        partitions = tuple(
            TopicPartition(topic.topic, number) for topic in read.assigned_partitions for number in topic.partitions
        )
        user_data = None if read.user_data is None else bytes(read.user_data)
        self._assignor(generation.protocol).assigned(Assignment(partitions, user_data), generation.number)
        self.given = SyncedAssignment(partitions, self._counts if leader else None)

    def _subscription(self, assignor: Assignor) -> bytes:
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=list(self.topics),
                user_data=assignor.subscription_data(self.topics),
                owned_partitions=[
                    ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                    for topic, numbers in _by_topic(sorted(self.owned)).items()
                ],
                generation_id=self.generation,
                rack_id=self._rack,
            )
        )

    def _assignor(self, name: str) -> Assignor:
        if name not in self.assignors:
            raise ProtocolFault(f"the group has chosen the assignor {name!r}, which this member did not offer")
        return self.assignors[name]


def read_subscription(joiner: Joiner) -> Subscription:
    """A member's subscription. Raises ProtocolFault."""
    try:
        read = decode_subscription(joiner.metadata)
    except ProtocolError as error:
        raise ProtocolFault(f"the subscription of member {joiner.member_id} cannot be read: {error}") from error
    return Subscription(
        topics=tuple(read.topics),
        user_data=None if read.user_data is None else bytes(read.user_data),
        owned=tuple(TopicPartition(t.topic, number) for t in read.owned_partitions for number in t.partitions),
        generation=read.generation_id,
        rack=read.rack_id,
        instance_id=joiner.instance_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _check_cooperative(
    name: str, members: Mapping[str, Subscription], given: Mapping[str, Sequence[TopicPartition]]
) -> None:
    """Raises GroupError if a partition moves without a generation in which it has no owner (KIP-429)."""
    gained = {tp for member, tps in given.items() for tp in set(tps).difference(members[member].owned)}
    given_up = {
        tp
        for member, subscription in members.items()
        for tp in set(subscription.owned).difference(given.get(member, ()))
    }
    wrong = sorted(gained & given_up)
    if wrong:
        raise GroupError(
            f"assignor {name} assigns partitions that other members have not revoked yet: {', '.join(map(str, wrong))}"
        )
