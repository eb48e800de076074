"""Assignors give what Java's give, and what any assignor must: every partition once, to somebody who wants it."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kseg.client.membership.assignor import Assignment, Assignor, Racks, Subscription
from kseg.client.membership.simple_assignors import RangeAssignor, RoundRobinAssignor
from kseg.client.membership.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
    decode_generation,
    decode_owned,
    encode_generation,
    encode_owned,
)
from kseg.client.protocol.partition import TopicPartition

ASSIGNORS: list[type[Assignor]] = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
TP = TopicPartition


class Group:
    """A group that changes from one generation to the next."""

    def __init__(self, rng: random.Random, assignor: type[Assignor]) -> None:
        self.rng = rng
        self.assignor = assignor
        self.alike = rng.random() < 0.5
        racks = ["a", "b", "c"] if rng.random() < 0.4 else []
        self.rack_names = racks
        self.topics = {
            f"topic-{n}": self._partitions(rng.choice([1, 2, 3, 6, 7, 13])) for n in range(rng.randint(1, 6))
        }
        self.generation = 1
        self.members: dict[str, Subscription] = {}
        self.last: dict[str, tuple[list[TP], int]] = {}
        for _ in range(rng.randint(1, 9)):
            self._add()

    def _partitions(self, count: int) -> list[list[str]]:
        return [self.rng.sample(self.rack_names, min(2, len(self.rack_names))) for _ in range(count)]

    def _add(self) -> None:
        topics = list(self.topics)
        if not self.alike:
            topics = self.rng.sample(topics, self.rng.randint(1, len(topics)))
        rack = self.rng.choice(self.rack_names) if self.rack_names and self.rng.random() < 0.9 else None
        instance = f"static-{self.rng.randrange(10**6)}" if self.rng.random() < 0.2 else None
        member = f"client-{self.rng.randint(0, 3)}-{uuid.UUID(int=self.rng.getrandbits(128))}"
        self.members[member] = Subscription(tuple(topics), rack=rack, instance_id=instance)

    def change(self) -> None:
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 4])):
            kind = self.rng.random()
            if kind < 0.35:
                self._add()
            elif kind < 0.65 and len(self.members) > 1:
                gone = self.rng.choice(list(self.members))
                del self.members[gone]
                self.last.pop(gone, None)
            elif kind < 0.85:
                topic = self.rng.choice(list(self.topics))
                self.topics[topic] += self._partitions(self.rng.randint(1, 3))
            elif self.last:  # somebody who missed a generation and claims what may be another's now
                missed = self.rng.choice(list(self.last))
                self.last[missed] = (self.last[missed][0], max(1, self.last[missed][1] - 1))

    @property
    def counts(self) -> dict[str, int]:
        """Of the topics that somebody wants: what an assignor is given."""
        wanted = {topic for told in self.members.values() for topic in told.topics}
        return {topic: len(partitions) for topic, partitions in self.topics.items() if topic in wanted}

    @property
    def racks(self) -> Racks:
        return {
            TP(topic, n): frozenset(where) for topic, places in self.topics.items() for n, where in enumerate(places)
        }

    def told(self) -> dict[str, Subscription]:
        """What the members tell when they join: what they had, in the form that their strategy wants."""
        found = {}
        for member, base in self.members.items():
            owned, generation = self.last.get(member, ([], -1))
            data = None
            if member in self.last and self.assignor is StickyAssignor:
                data = encode_owned(owned, generation)
            found[member] = Subscription(base.topics, data, tuple(owned), generation, base.rack, base.instance_id)
        return found

    def as_json(self) -> str:
        members = [
            {
                "id": member,
                "topics": told.topics,
                "owned": told.owned,
                "generation": told.generation,
                "user_data": None if told.user_data is None else told.user_data.hex(),
                "rack": told.rack,
                "instance": told.instance_id,
            }
            for member, told in self.told().items()
        ]
        return json.dumps({"assignor": self.assignor.name, "topics": self.topics, "members": members})

    def apply(self, assignments: Mapping[str, Any]) -> None:
        self.generation += 1
        self.last = {member: (list(assignments[member]), self.generation) for member in self.members}


def readable(assignments: Mapping[str, Any]) -> dict[str, list[str]]:
    return {member: sorted(str(tp) for tp in given) for member, given in assignments.items()}


@pytest.mark.rule(230)
def test_assignments_are_the_ones_that_java_makes(
    java: Callable[[str, str], list[str]], scale: Callable[[int, int], int]
):
    """Groups of all kinds through several generations, racks and contested claims included."""
    lines, ours = [], []
    for seed in range(4 * scale(150, 3000)):
        assignor = ASSIGNORS[seed % 4]
        group = Group(random.Random(f"{assignor.name}-{seed}"), assignor)
        for _ in range(4):
            given = assignor().assign(group.counts, group.told(), group.racks)
            lines.append(group.as_json())
            ours.append(readable(given))
            group.apply(given)
            group.change()
    answers = java("Assignors.java", "\n".join(lines) + "\n")
    assert len(answers) == len(lines)
    for line, our, answer in zip(lines, ours, answers, strict=True):
        assert our == {member: sorted(given) for member, given in json.loads(answer).items()}, line


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda cls: cls.name)
def test_every_partition_goes_to_exactly_one_member_that_wants_it(assignor: type[Assignor]):
    for seed in range(100):
        group = Group(random.Random(seed), assignor)
        for _ in range(4):
            given = assignor().assign(group.counts, group.told(), group.racks)
            for member, partitions in given.items():
                assert {tp.topic for tp in partitions} <= set(group.members[member].topics)
            handed_out = [tp for partitions in given.values() for tp in partitions]
            everything = {TP(topic, n) for topic, count in group.counts.items() for n in range(count)}
            assert len(handed_out) == len(set(handed_out))
            still_owned = {tp for told in group.told().values() for tp in told.owned}
            left_out = everything - set(handed_out)
            assert set(handed_out) <= everything
            assert not left_out or (assignor.cooperative and left_out <= still_owned)
            group.apply(given)
            group.change()


def subscriptions(**owned: list[TP]) -> dict[str, Subscription]:
    return {name: Subscription(("t",), owned=tuple(tps), generation=1) for name, tps in owned.items()}


@pytest.mark.rule(229)
def test_a_cooperative_assignor_gives_a_partition_away_only_after_its_owner_let_go():
    """KIP-429: two generations to move a partition, and nobody stops reading what stays."""
    before = subscriptions(a=[TP("t", n) for n in range(4)], b=[])
    first = CooperativeStickyAssignor().assign({"t": 4}, before)
    assert readable(first) == {"a": ["t-0", "t-1"], "b": []}
    second = CooperativeStickyAssignor().assign({"t": 4}, subscriptions(a=first["a"], b=[]))
    assert readable(second) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_an_assignor_does_not_believe_in_partitions_that_are_gone():
    """A topic made anew with fewer partitions: Java's assignor would hand some out twice."""
    given = CooperativeStickyAssignor().assign({"t": 2}, subscriptions(a=[TP("t", 0), TP("t", 5)], b=[TP("t", 7)]))
    assert sorted(tp for tps in given.values() for tp in tps) == [TP("t", 0), TP("t", 1)]


def test_a_former_owner_that_does_not_want_the_topic_any_more_gets_nothing_of_it():
    members = {
        "former": Subscription(("u",), owned=(TP("t", 0),), generation=1),
        "x": Subscription(("t",), owned=tuple(TP("t", n) for n in range(3)), generation=2),
        "y": Subscription(("t", "u"), generation=2),
    }
    given = CooperativeStickyAssignor().assign({"t": 3, "u": 1}, members)
    assert all(tp.topic == "u" for tp in given["former"])


@pytest.mark.rule(216)
def test_sticky_tells_the_next_leader_what_it_had():
    assignor = StickyAssignor()
    assert assignor.subscription_data(["t"]) is None
    assignor.assigned(Assignment((TP("t", 1), TP("u", 0), TP("t", 3))), 9)
    data = assignor.subscription_data(["t"])
    assert data is not None
    assert decode_owned(data) == ((TP("t", 1), TP("t", 3), TP("u", 0)), 9)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff" * 12, b"\0\0\0\1\0\1t\x7f\xff\xff\xff", encode_owned([TP("t", 1)], 1)[:-5]]
)
def test_user_data_that_is_none_counts_as_nothing_owned(data: bytes):
    assert decode_owned(data)[0] == ()


@pytest.mark.rule(216)
def test_user_data_of_old_members_lacks_the_generation():
    assert decode_owned(encode_owned([TP("t", 1)], 5)[:-4]) == ((TP("t", 1),), None)
    assert decode_generation(encode_generation(7)) == 7
    assert decode_generation(b"\0") == -1
