"""The interface of partition assignors, and functions that ours share.

`assign` runs only on the group's leader. A member can use any subclass of `Assignor`. The group agrees on an assignor's
`name`, so every member needs one of that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kseg.client.protocol.partition import TopicPartition

NO_GENERATION: Final = -1

#: The racks of each partition's replicas; a partition that is missing here has no known racks.
Racks = Mapping[TopicPartition, frozenset[str]]
Assignments = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription, as the leader receives it.

    `owned`, and the `generation` in which they were assigned (-1: unknown), are for sticky assignors; `user_data` is in
    the assignor's own format.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's message to a member: its partitions, and the assignor's own data."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class Assignor(ABC):
    """An assignment strategy. An instance belongs to one member and may keep state between generations.

    `cooperative`: members keep their partitions while they rejoin (KIP-429), so `assign` must not assign a partition
    that another member still owns.
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Called on the leader: every member's partitions.

        `partitions`: the partition count of each subscribed topic (missing topics are left out).
        """

    def subscription_data(self, topics: Iterable[str]) -> bytes | None:
        """This member's `Subscription.user_data` when it joins."""
        return None

    def assignment_data(self, member_id: str) -> bytes | None:
        """`Assignment.user_data` for a member; called on the leader after `assign`."""
        return None

    def assigned(self, assignment: Assignment, generation: int) -> None:  # noqa: B027
        """Called when this member has received an assignment."""


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
    """Whether rack-aware assignment (KIP-881) has an effect: consumers and replicas share racks, and not every
    partition has replicas in all racks."""
    sets = list(partition_racks)
    everywhere = frozenset().union(*sets)
    return not everywhere.isdisjoint(consumer_racks) and any(racks != everywhere for racks in sets)
