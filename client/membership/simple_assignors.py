"""Range and round robin: assignors that ignore the previous assignment.

    range        topic by topic: each subscriber gets a range of consecutive partitions, the first ones one more if the
                 count does not divide evenly; so topics with equal partition counts are divided alike (co-partitioned)
    roundrobin   all partitions of all topics, one by one, to the members that subscribe to the topic

Range is rack-aware (KIP-881): a member first gets partitions with a replica in its rack, up to its share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

from kseg.client.membership.assignor import (
    Assignments,
    Assignor,
    Racks,
    Subscription,
    every_partition,
    members_in_order,
    racks_matter,
)
from kseg.client.protocol.partition import TopicPartition


class RangeAssignor(Assignor):
    """A range of every topic's partitions for each member."""

    name: ClassVar[str] = "range"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Assignments:
        assignments: Assignments = {member: [] for member in members}
        ordered = members_in_order(members)
        pieces = [
            _Topic(
                topic,
                count,
                {member: members[member].rack or None for member in ordered if topic in members[member].topics},
                racks or {},
            )
            for topic, count in partitions.items()
            if count > 0
        ]
        if any(topic.looks_at_racks for topic in pieces):
            _match_racks(pieces, assignments)
        for topic in pieces:
            topic.cut(assignments)
        return {member: sorted(given) for member, given in assignments.items()}


class _Topic:
    """One topic during its assignment."""

    def __init__(self, name: str, count: int, members: dict[str, str | None], racks: Racks) -> None:
        self.members = members
        self.count = count
        self.name = name
        self.left = [TopicPartition(name, at) for at in range(count)]
        self._share, self._longer = divmod(count, len(members)) if members else (0, 0)
        self._given = dict.fromkeys(members, 0)
        wanted = {rack for rack in members.values() if rack is not None}
        self._racks = {tp: racks.get(tp, frozenset()) for tp in self.left} if wanted else {}
        self.looks_at_racks = bool(wanted) and racks_matter(wanted, self._racks.values())

    def capacity(self, member: str) -> int:
        return max(0, self._share + (1 if self._longer > 0 else 0) - self._given[member])

    def matches(self, member: str, tp: TopicPartition) -> bool:
        rack = self.members[member]
        return rack is None or rack in self._racks.get(tp, ())

    def give(self, member: str, given: list[TopicPartition], assignments: Assignments) -> None:
        if not given:
            return
        assignments[member] += given
        self._given[member] += len(given)
        if self._given[member] > self._share:
            self._longer -= 1
        taken = set(given)
        self.left = [tp for tp in self.left if tp not in taken]

    def cut(self, assignments: Assignments, *, by_rack: bool = False) -> None:
        for member in self.members:
            fitting = [tp for tp in self.left if not by_rack or self.matches(member, tp)]
            self.give(member, fitting[: self.capacity(member)], assignments)


def _match_racks(topics: list[_Topic], assignments: Assignments) -> None:
    """Assign by rack. Topics with the same members and equal partition counts stay co-partitioned."""
    alike: dict[object, list[_Topic]] = defaultdict(list)
    for topic in topics:
        # Java counts the partitions only of topics that have members with racks.
        count = topic.count if any(topic.members.values()) else 0
        alike[tuple(topic.members.items()), count].append(topic)
    for group in alike.values():
        if len(group) == 1:
            if group[0].looks_at_racks:
                group[0].cut(assignments, by_rack=True)
        elif any(group[0].members.values()):
            _match_racks_alike(group, assignments)


def _match_racks_alike(topics: list[_Topic], assignments: Assignments) -> None:
    remaining = list(topics[0].members)
    for number in range(topics[0].count):
        member = next(
            (
                member
                for member in remaining
                if all(
                    topic.matches(member, TopicPartition(topic.name, number)) and topic.capacity(member)
                    for topic in topics
                )
            ),
            None,
        )
        if member is None:
            continue
        for topic in topics:
            topic.give(member, [TopicPartition(topic.name, number)], assignments)
        if not any(topic.capacity(member) for topic in topics):
            remaining.remove(member)


class RoundRobinAssignor(Assignor):
    """Partitions assigned one by one to the members in turn."""

    name: ClassVar[str] = "roundrobin"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Assignments:
        del racks  # round robin is not rack-aware
        assignments: Assignments = {member: [] for member in members}
        circle = members_in_order(members)
        wanted = {topic for member in circle for topic in members[member].topics}
        at = 0
        for tp in every_partition({topic: count for topic, count in partitions.items() if topic in wanted}):
            while tp.topic not in members[circle[at]].topics:
                at = (at + 1) % len(circle)
            assignments[circle[at]].append(tp)
            at = (at + 1) % len(circle)
        return assignments
