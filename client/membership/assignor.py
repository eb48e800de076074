"""Who reads which partitions: what an assignor is given, what it gives, and what all of ours share.

An assignor runs in the group's leader alone. A member may be given any subclass of `Assignor`; its `name` is what the
group agrees on, so every member of the group has to have an assignor of that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kseg.client.protocol.partition import TopicPartition

NO_GENERATION: Final = -1

#: The racks that each partition has replicas in; a partition that is not there has none that are known.
Racks = Mapping[TopicPartition, frozenset[str]]
Assignments = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription, as the leader gets it.

    `owned` and `generation` (the one they were assigned in; -1: unknown) are for assignors that leave partitions where
    they are; `user_data` is the assignor's own, in its own format.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader sends to a member: its partitions, and the assignor's own data."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class Assignor(ABC):
    """A strategy. An instance belongs to one member and may keep what it needs from one generation to the next.

    `cooperative`: members keep what they own while they join (KIP-429), so `assign` must give a partition to no one
    for as long as another member still owns it.
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """The leader's work: every member's partitions.

        `partitions`: how many each subscribed topic has (topics that are not there are left out).
        """

    def subscription_data(self, topics: Iterable[str]) -> bytes | None:
        """This member's `Subscription.user_data` when it joins."""
        return None

    def assignment_data(self, member_id: str) -> bytes | None:
        """`Assignment.user_data` for a member, asked of the leader's assignor after `assign`."""
        return None

    def assigned(self, assignment: Assignment, generation: int) -> None:  # noqa: B027
        """This member has got an assignment."""


def java_key(text: str) -> bytes:
    """Sorts strings as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def members_in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Static members by their instance id, then all others by member id: an order that a restart does not change."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance = members[member_id].instance_id
        return (instance is None, java_key(member_id if instance is None else instance))

    return sorted(members, key=key)


def every_partition(partitions: Mapping[str, int]) -> list[TopicPartition]:
    """All of them, by topic and number."""
    return [TopicPartition(topic, at) for topic in sorted(partitions, key=java_key) for at in range(partitions[topic])]


def racks_matter(consumer_racks: Iterable[str], partition_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks (KIP-881) change anything: some are shared, and not every partition is in all of them."""
    sets = list(partition_racks)
    everywhere = frozenset().union(*sets)
    return not everywhere.isdisjoint(consumer_racks) and any(racks != everywhere for racks in sets)
