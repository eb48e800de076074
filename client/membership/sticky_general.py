"""Sticky assignment if members subscribe to different topics: moves partitions until no move improves the balance.

1. Members keep the partitions that they own and still subscribe to. Each remaining partition goes to the subscriber
   with the fewest partitions; partitions with few subscribers come first.
2. Members and topics without alternatives are left out from here on.
3. Partitions are moved to members that have at least two fewer: first those assigned in step 1, then all. If the total
   balance has not improved, all moves are undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from kseg.client.membership.assignor import Assignments, java_key
from kseg.client.membership.sticky_racks import RackMap
from kseg.client.protocol.java_hash import in_hash_order, partition_hash
from kseg.client.protocol.partition import TopicPartition

#: The previous owners of partitions.
Previous = Mapping[TopicPartition, str]


def assign_general(
    partitions: Mapping[str, int],
    topics: Mapping[str, tuple[str, ...]],
    owned: Mapping[str, list[TopicPartition]],
    previous: Previous,
    racks: RackMap,
) -> Assignments:
    """Assignments. `topics`: the existing topics that each member subscribes to."""
    return _Balance(partitions, topics, owned, previous, racks).run()


class _Balance:
    def __init__(
        self,
        partitions: Mapping[str, int],
        topics: Mapping[str, tuple[str, ...]],
        owned: Mapping[str, list[TopicPartition]],
        previous: Previous,
        racks: RackMap,
    ) -> None:
        self._counts = partitions
        self._topics = topics
        self._previous = previous
        self._racks = racks
        self._readers = {topic: [m for m, wanted in topics.items() if topic in wanted] for topic in partitions}
        by_readers = sorted(partitions, key=lambda topic: (len(self._readers[topic]), java_key(topic)))
        self._all = [TopicPartition(topic, at) for topic in by_readers for at in range(partitions[topic])]
        self._given: Assignments = {}
        self._must_revoke = False
        for member, claimed in owned.items():
            wanted = [tp for tp in claimed if tp.topic in topics[member]]
            self._given[member] = [tp for tp in wanted if not racks.apart(member, tp)]
            self._must_revoke |= len(self._given[member]) < len(claimed)
        self._owner = {tp: member for member, given in self._given.items() for tp in given}
        self._moves = _Moves()

    def run(self) -> Assignments:
        fresh = not any(self._given.values())
        left = [tp for tp in self._all if tp not in self._owner]
        self._place(left)

        contended = {topic for topic, readers in self._readers.items() if len(readers) > 1}
        every = [tp for tp in self._all if tp.topic in contended]
        left = [tp for tp in left if tp.topic in contended]
        settled = {member: given for member, given in self._given.items() if not self._has_choice(member, contended)}
        for member in settled:
            del self._given[member]

        before = {member: list(given) for member, given in self._given.items()}
        if self._given:
            if not self._must_revoke:
                self._improve(left)
            changed = self._improve(every)
            if changed and not fresh and _imbalance(self._given) >= _imbalance(before):
                self._given = before
        return self._given | settled

    # -- 1

    def _place(self, left: list[TopicPartition]) -> None:
        if self._racks.members:
            left = [tp for tp in left if not self._place_one(tp, by_rack=True)]
        for tp in left:
            self._place_one(tp, by_rack=False)

    def _place_one(self, tp: TopicPartition, *, by_rack: bool) -> bool:
        fitting = (m for m in self._readers[tp.topic] if not by_rack or not self._racks.apart(m, tp))
        member = min(fitting, key=self._load, default=None)
        if member is None:
            return False
        self._given[member].append(tp)
        self._owner[tp] = member
        return True

    # -- 2

    def _has_choice(self, member: str, contended: set[str]) -> bool:
        given = self._given[member]
        return len(given) < self._most(member) or any(tp.topic in contended for tp in given)

    def _most(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member])

    # -- 3

    def _improve(self, candidates: list[TopicPartition]) -> bool:
        changed, again = False, True
        while again:
            again = False
            for tp in candidates:
                if self._balanced():
                    break
                target = self._better_owner(tp)
                if target is not None:
                    self._move(tp, target)
                    changed = again = True
        return changed

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The member to move the partition to, if one has at least two fewer partitions."""
        owner = self._owner[tp]
        load = len(self._given[owner])
        former = self._previous.get(tp)
        # Java does not check whether the former owner still subscribes to the topic, which would be wrong.
        if former in self._given and former in self._readers[tp.topic] and load > len(self._given[former]) + 1:
            return former
        readers = [m for m in self._readers[tp.topic] if m in self._given]
        if any(load > len(self._given[member]) + 1 for member in readers):
            return min(readers, key=self._load)
        return None

    def _balanced(self) -> bool:
        loads = [len(given) for given in self._given.values()]
        if max(loads) - min(loads) <= 1:
            return True
        for member, given in self._given.items():
            count = len(given)
            if count == self._most(member):
                continue
            for topic in self._topics[member]:
                for number in range(self._counts[topic]):
                    owner = self._owner[TopicPartition(topic, number)]
                    if owner != member and owner in self._given and count + 1 < len(self._given[owner]):
                        return False
        return True

    def _move(self, tp: TopicPartition, target: str) -> None:
        moved = self._moves.rather(tp, self._owner[tp], target)
        owner = self._owner[moved]
        self._moves.note(moved, owner, target)
        self._given[owner].remove(moved)
        self._given[target].append(moved)
        self._owner[moved] = target

    def _load(self, member: str) -> tuple[int, bytes]:
        return len(self._given[member]), java_key(member)


class _Moves:
    """The moves between members, so that two partitions of a topic do not swap owners needlessly."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}
        self._fullest: dict[tuple[str, tuple[str, str]], int] = {}

    def rather(self, tp: TopicPartition, owner: str, target: str) -> TopicPartition:
        """The partition to move: one of the topic that was moved in the opposite direction before is preferred."""
        source = self._of[tp][0] if tp in self._of else owner
        pair = (target, source)
        back = self._by_topic.get(tp.topic, {}).get(pair)
        if not back:
            return tp
        return in_hash_order(back, partition_hash, most=self._fullest[tp.topic, pair])[0]

    def note(self, tp: TopicPartition, owner: str, target: str) -> None:
        source = owner
        known = self._of.pop(tp, None)
        if known is not None:
            source = known[0]
            pairs = self._by_topic[tp.topic]
            del pairs[known][tp]
            if not pairs[known]:
                del pairs[known]
                del self._fullest[tp.topic, known]
            if source == target:
                return
        pair = (source, target)
        self._of[tp] = pair
        moved = self._by_topic.setdefault(tp.topic, {}).setdefault(pair, {})
        moved[tp] = None
        self._fullest[tp.topic, pair] = max(self._fullest.get((tp.topic, pair), 0), len(moved))


def _imbalance(assignments: Assignments) -> int:
    return sum(abs(len(one) - len(other)) for one, other in combinations(assignments.values(), 2))
