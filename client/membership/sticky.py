"""Sticky assignors: the assignment is as balanced as possible, and moves few partitions.

    sticky               eager: members revoke all partitions before they rejoin; their user data lists what they had
    cooperative-sticky   KIP-429: members keep their partitions while they rejoin; a partition that moves is unassigned
                         in this generation, so that its owner revokes it, and assigned in the next one

A member keeps a partition that it claims to own only if no member of a later generation claims it too; if two members
of the same generation do, neither keeps it. If all members subscribe to the same topics, the assignment is found in one
pass (`sticky_equal`), else by moving partitions until no move improves the balance (`sticky_general`).

The user data of these assignors, inside of the consumer protocol, is big-endian and has no version:

sticky               the member's previous partitions by topic, and their generation (missing from clients before 2.3)
cooperative-sticky   only the generation: the partitions are in the subscription itself
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from kseg.client.membership.assignor import NO_GENERATION, Assignment, Assignments, Assignor, Racks, Subscription
from kseg.client.membership.sticky_equal import assign_equal
from kseg.client.membership.sticky_general import Previous, assign_general
from kseg.client.membership.sticky_racks import RackMap
from kseg.client.protocol.java_hash import in_hash_order, string_hash
from kseg.client.protocol.partition import TopicPartition


def encode_owned(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Sticky's user data."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    out = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        out.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join([*out, struct.pack(">i", generation)])


def decode_owned(data: bytes) -> tuple[tuple[TopicPartition, ...], int | None]:
    """Partitions and generation (None: not in the data). Malformed data counts as no partitions, generation -1."""
    try:
        partitions, end = _read(data)
        generation = struct.unpack_from(">i", data, end)[0] if len(data) - end >= 4 else None
    except (struct.error, ValueError):
        return (), NO_GENERATION
    return tuple(partitions), generation


def _read(data: bytes) -> tuple[list[TopicPartition], int]:
    (count,), at = struct.unpack_from(">i", data), 4
    _check(0 <= count <= len(data))
    partitions: list[TopicPartition] = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, at)
        _check(0 <= length <= len(data) - at - 2)
        topic = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (size,) = struct.unpack_from(">i", data, at)
        _check(0 <= size <= (len(data) - at - 4) // 4)
        partitions += [TopicPartition(topic, number) for number in struct.unpack_from(f">{size}i", data, at + 4)]
        at += 4 + 4 * size
    return partitions, at


def _check(valid: bool) -> None:
    if not valid:
        raise ValueError("no such length")


def encode_generation(generation: int) -> bytes:
    """Cooperative sticky's user data."""
    return struct.pack(">i", generation)


def decode_generation(data: bytes) -> int:
    """The generation; -1 if there are fewer than four bytes."""
    return int(struct.unpack_from(">i", data)[0]) if len(data) >= 4 else NO_GENERATION


class OwnedPartitions(NamedTuple):
    """The partitions that a member says it owns, and their generation (None: not in its subscription)."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


class _Sticky(Assignor):
    @abstractmethod
    def claim(self, subscription: Subscription) -> OwnedPartitions:
        """The partitions that the member claims to own."""

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Assignments:
        return self._place(partitions, members, racks)[0]

    def _place(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None
    ) -> tuple[Assignments, dict[TopicPartition, str]]:
        """The assignments, and the new owners of partitions that move from one member to another."""
        order = in_hash_order(members, string_hash)
        claims = {member: self._valid(self.claim(members[member]), partitions) for member in order}
        owned, contested = settle(claims)
        rack_map = RackMap.of(partitions, {member: members[member] for member in order}, racks or {})
        first = set(members[order[0]].topics) if order else set()
        if all(set(members[member].topics) == first for member in order):
            return assign_equal(partitions, owned, contested, rack_map)
        topics = {member: tuple(topic for topic in members[member].topics if topic in partitions) for member in order}
        assignments = assign_general(partitions, topics, owned, _previous(claims), rack_map)
        return assignments, moved({member: claims[member].partitions for member in order}, assignments)

    @staticmethod
    def _valid(claim: OwnedPartitions, partitions: Mapping[str, int]) -> OwnedPartitions:
        """The claim without partitions that no longer exist: of topics deleted, or recreated with fewer partitions."""
        return claim._replace(
            partitions=tuple(tp for tp in claim.partitions if tp.partition < partitions.get(tp.topic, 0))
        )


class StickyAssignor(_Sticky):
    """Sticky, for eager groups."""

    name: ClassVar[str] = "sticky"

    def __init__(self) -> None:
        self._last: tuple[tuple[TopicPartition, ...], int] | None = None

    def subscription_data(self, topics: Iterable[str]) -> bytes | None:
        return None if self._last is None else encode_owned(*self._last)

    def assigned(self, assignment: Assignment, generation: int) -> None:
        self._last = (assignment.partitions, generation)

    def claim(self, subscription: Subscription) -> OwnedPartitions:
        if not subscription.user_data:
            return OwnedPartitions((), None)
        return OwnedPartitions(*decode_owned(subscription.user_data))


class CooperativeStickyAssignor(_Sticky):
    """Sticky, for cooperative groups: members keep reading partitions that do not move."""

    name: ClassVar[str] = "cooperative-sticky"
    cooperative: ClassVar[bool] = True

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_data(self, topics: Iterable[str]) -> bytes | None:
        return encode_generation(self._generation)

    def assigned(self, assignment: Assignment, generation: int) -> None:
        self._generation = generation

    def claim(self, subscription: Subscription) -> OwnedPartitions:
        if subscription.generation >= 0:  # in subscriptions from version 2 on
            return OwnedPartitions(subscription.owned, subscription.generation)
        if subscription.user_data is None:
            return OwnedPartitions(subscription.owned, None)
        return OwnedPartitions(subscription.owned, decode_generation(subscription.user_data))

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks | None = None
    ) -> Assignments:
        assignments, moving = self._place(partitions, members, racks)
        for tp, member in moving.items():
            assignments[member].remove(tp)
        return assignments


def settle(claims: Mapping[str, OwnedPartitions]) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """Each member's partitions by valid claims, and the contested partitions, which no member keeps.

    Of several claims, the one of the latest generation is valid. Contested: two members of that generation claim it.
    """
    owned: dict[str, list[TopicPartition]] = {member: [] for member in claims}
    owner: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()

    def since(member: str) -> int:
        generation = claims[member].generation
        return NO_GENERATION if generation is None else generation

    for member, claim in claims.items():
        for tp in claim.partitions:
            rival = owner.get(tp)
            if rival is not None and since(rival) > since(member):
                continue
            if rival is not None and tp in owned[rival]:
                owned[rival].remove(tp)
            owner[tp] = member
            if rival is not None and since(rival) == since(member):
                contested.add(tp)
            else:
                owned[member].append(tp)
    return owned, contested


def moved(before: Mapping[str, Iterable[TopicPartition]], after: Assignments) -> dict[TopicPartition, str]:
    """The partitions that move from one member to another, with their new owners."""
    given_up = {tp for member, owned in before.items() for tp in set(owned).difference(after[member])}
    gained = {tp: member for member, given in after.items() for tp in set(given).difference(before[member])}
    return {tp: member for tp, member in gained.items() if tp in given_up}


def _previous(claims: Mapping[str, OwnedPartitions]) -> Previous:
    """The owners of partitions in earlier generations: preferred if the current owner has to give a partition up."""
    latest = max((claim.generation for claim in claims.values() if claim.generation is not None), default=NO_GENERATION)
    latest = max(latest, NO_GENERATION)
    found: dict[TopicPartition, tuple[str, int]] = {}
    for member, claim in claims.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        if generation < latest:
            for tp in claim.partitions:
                if tp not in found or generation > found[tp][1]:
                    found[tp] = (member, generation)
    return {tp: member for tp, (member, _) in found.items()}
