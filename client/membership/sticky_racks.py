"""Rack-aware assignment (KIP-881) for the sticky assignors; without effect if no member has a rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kseg.client.membership.assignor import Racks, Subscription, racks_matter
from kseg.client.protocol.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class RackMap:
    """`members` and `partitions` are empty where racks make no difference.

    `readers`: how many members are in the racks of a partition; set also where racks make no difference, as Java does.
    """

    members: dict[str, str]
    partitions: Racks
    readers: dict[TopicPartition, int]

    @classmethod
    def of(cls, counts: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks) -> RackMap:
        by_member = {member: subscription.rack for member, subscription in members.items() if subscription.rack}
        if not by_member:
            return cls({}, {}, {})
        places = {
            tp: racks.get(tp, frozenset())
            for topic, count in counts.items()
            for tp in (TopicPartition(topic, number) for number in range(count))
        }
        in_rack = {rack: sum(1 for other in by_member.values() if other == rack) for rack in by_member.values()}
        readers = {tp: sum(in_rack.get(rack, 0) for rack in where) for tp, where in places.items()}
        if not racks_matter(by_member.values(), places.values()):
            return cls({}, {}, readers)
        return cls(by_member, places, readers)

    def apart(self, member: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack and the partition no replica there."""
        rack = self.members.get(member)
        return rack is not None and rack not in self.partitions.get(tp, ())

    def together(self, member: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack and the partition a replica there."""
        rack = self.members.get(member)
        return rack is not None and rack in self.partitions.get(tp, ())

    def fewest_readers_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return sorted(partitions, key=lambda tp: self.readers.get(tp, 0)) if self.readers else partitions

    def next_reader(self, tp: TopicPartition, members: Sequence[str], first: int) -> int | None:
        """The index of the first member in a rack of the partition, searched from `first` on with wraparound."""
        for step in range(len(members)):
            at = (first + step) % len(members)
            if self.together(members[at], tp):
                return at
        return None
