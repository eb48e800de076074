"""Sticky assignment if all members subscribe to the same topics: in one pass.

With P partitions and M members, P mod M members get one partition more than the others. Each member keeps its
partitions up to its share; the first members get the larger share. The remaining partitions go to members with fewer:
first up to the smaller share, then one more each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from kseg.client.membership.assignor import Assignments, every_partition, java_key
from kseg.client.membership.sticky_racks import RackMap
from kseg.client.protocol.partition import TopicPartition


def assign_equal(
    partitions: Mapping[str, int],
    owned: Mapping[str, list[TopicPartition]],
    contested: Collection[TopicPartition],
    racks: RackMap,
) -> tuple[Assignments, dict[TopicPartition, str]]:
    """Assignments, and the new owners of partitions that another member has to revoke first."""
    deal = _Deal(partitions, owned, contested, racks)
    if owned:
        deal.keep()
        deal.hand_out()
    return deal.assignments, deal.moving


class _Deal:
    def __init__(
        self,
        partitions: Mapping[str, int],
        owned: Mapping[str, list[TopicPartition]],
        contested: Collection[TopicPartition],
        racks: RackMap,
    ) -> None:
        self.assignments: Assignments = {member: [] for member in owned}
        self.moving: dict[TopicPartition, str] = {}
        self._owned = owned
        self._contested = contested
        self._racks = racks
        self._all = every_partition(partitions)
        self._share, self._longer = divmod(len(self._all), max(1, len(owned)))
        self._most = self._share + (1 if self._longer else 0)
        self._full = 0  # members that have the larger share
        self._given_up: dict[TopicPartition, str] = {}
        self._below: list[str] = []  # members with less than the smaller share
        self._at: list[str] = []  # members with exactly the smaller share, which may get one more

    def keep(self) -> None:
        for member, owned in self._owned.items():
            fitting = [tp for tp in owned if not self._racks.apart(member, tp)]
            self._given_up.update({tp: member for tp in owned if self._racks.apart(member, tp)})
            fitting.sort(key=lambda tp: (tp.partition, java_key(tp.topic)))
            fitting = [tp for tp in fitting if tp not in self._contested]
            if len(fitting) < self._share:
                self._below.append(member)
                kept = len(fitting)
            elif len(fitting) >= self._most and self._full < self._longer:
                self._full += 1
                if self._full == self._longer:
                    self._at.clear()
                kept = self._most
            else:
                kept = self._share
                if self._full < self._longer:
                    self._at.append(member)
            self.assignments[member] += fitting[:kept]
            self._given_up.update(dict.fromkeys(fitting[kept:], member))

    def hand_out(self) -> None:
        kept = {tp for given in self.assignments.values() for tp in given}
        self._below.sort(key=java_key)
        self._at.sort(key=java_key)
        left = self._racks.fewest_readers_first([tp for tp in self._all if tp not in kept])
        if self._racks.members:
            left = self._hand_out_by_rack(left)
        self._hand_out_in_turn(left)

    def _hand_out_by_rack(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members that have too few and are in a replica's rack; returns the other partitions."""
        rest: list[TopicPartition] = []
        turn = 0
        for tp in left:
            member: str | None = None
            place = self._racks.next_reader(tp, self._below, turn)
            if place is not None:
                member = self._below[place]
                count = len(self.assignments[member]) + 1
                if count >= self._share:
                    self._below.remove(member)
                    if count < self._most and self._full < self._longer:
                        self._at.append(member)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
            else:
                place = self._racks.next_reader(tp, self._at, 0)
                if place is not None:
                    member = self._at[place]
                    if len(self.assignments[member]) + 1 == self._most:
                        del self._at[place]
                        self._full += 1
                        if self._full == self._longer:
                            self._at.clear()
            if member is None:
                rest.append(tp)
            else:
                self._give(tp, member)
        return rest

    def _hand_out_in_turn(self, left: list[TopicPartition]) -> None:
        below, at = deque(self._below), deque(self._at)
        for tp in left:
            if not below:
                self._give(tp, at.popleft())
                continue
            member = below.popleft()
            if self._give(tp, member) == self._share:
                at.append(member)
            else:
                below.append(member)

    def _give(self, tp: TopicPartition, member: str) -> int:
        given = self.assignments[member]
        given.append(tp)
        if self._given_up.get(tp, member) != member or tp in self._contested:
            self.moving[tp] = member
        return len(given)
