"""Chooses the partition of a record. The client decides: two clients agree on a key only with the same partitioner.

    Default      with a key: murmur2 over all partitions, as in Java and librdkafka ("murmur2_random")
                 without: sticky, one partition until about `batch.size` bytes were sent to it, then another one at
                 random (KIP-480, KIP-794); partitions with more waiting batches are chosen less often
    RoundRobin   one after the other, among those with a leader
    RandomOnce   one partition per topic for the producer's lifetime, chosen at random
    a callable   the user's own: (topic, key, value, number of partitions) -> partition

Partitions without a leader are skipped, except in the choice by key, which must never change.

A key's partition is that of Java's default partitioner: by the 32-bit murmur2 of its bytes. Source: the public domain
algorithm of Austin Appleby, with Kafka's seed; parity with Java's `Utils.murmur2` is tested.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import Final, Protocol, Self

from kseg.client.cluster.metadata import NO_LEADER, TopicMetadata
from kseg.client.errors import UnknownTopic, error_from_code

SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORDS: Final = Struct("<I").iter_unpack


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number (Java's is the same bits, signed)."""
    size = len(data)
    h = SEED ^ size
    whole = size & ~3
    for (k,) in _WORDS(data[:whole]):
        k = k * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    rest = size - whole
    if rest:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=16_384)
def _positive(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key among so many. Keys come again, so the last ones' hashes are kept."""
    return _positive(key) % partitions


#: (topic, key, value, number of partitions) -> partition
UserPartitioner = Callable[[str, bytes | None, bytes | None, int], int]
#: Topic -> number of waiting batches by partition, from which the default partitioner computes weights.
QueueSizes = Callable[[str], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """A topic as the partitioner sees it: how many partitions there are, and which of them have a leader."""

    count: int
    available: tuple[int, ...]

    @classmethod
    def of(cls, topic: TopicMetadata) -> Self:
        """Raises the error of the topic's metadata, and UnknownTopic (retriable) if there are no partitions yet."""
        if topic.error is not None:
            raise error_from_code(int(topic.error), "Metadata", topic=topic.name)
        if not topic.partitions:
            raise UnknownTopic("the topic has no partitions", topic=topic.name, retriable=True)
        available = (number for number, partition in topic.partitions.items() if partition.leader_id != NO_LEADER)
        return cls(len(topic.partitions), tuple(sorted(available)))

    @property
    def preferred(self) -> Sequence[int]:
        return self.available or range(self.count)


class Partitioner(Protocol):
    """`size`: the record's bytes, so that a partitioner may count how much it sent where."""

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, size: int
    ) -> int: ...


class Default:
    """Java's built-in partitioner."""

    def __init__(
        self,
        batch_size: int,
        *,
        ignore_keys: bool = False,
        queue_sizes: QueueSizes | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """`queue_sizes` makes it adaptive: a partition with few waiting batches is chosen more often."""
        self._batch_size = max(batch_size, 1)
        self._ignore_keys = ignore_keys
        self._queue_sizes = queue_sizes
        self._chance = chance or random.Random()
        self._sticky: dict[str, tuple[int, int]] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, size: int
    ) -> int:
        if key is not None and not self._ignore_keys:
            return partition_of_key(key, partitions.count)
        partition, sent = self._sticky.get(topic, (-1, 0))
        if partition < 0 or sent >= self._batch_size or partition >= partitions.count:
            partition, sent = self._draw(topic, partitions), 0
        self._sticky[topic] = partition, sent + size
        return partition

    def _draw(self, topic: str, partitions: TopicPartitions) -> int:
        candidates = partitions.preferred
        waiting = self._queue_sizes(topic) if self._queue_sizes is not None else {}
        sizes = [waiting.get(partition, 0) for partition in candidates]
        longest = max(sizes)
        if longest == min(sizes):
            return candidates[self._chance.randrange(len(candidates))]
        # Weights are the distance to the longest queue, plus one so that no partition is left out (KIP-794).
        weights = list(accumulate(longest + 1 - waits for waits in sizes))
        return candidates[bisect_right(weights, self._chance.randrange(weights[-1]))]


class RoundRobin:
    """Every record to the next partition, keys or not."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, size: int
    ) -> int:
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        return partitions.preferred[number % len(partitions.preferred)]


class RandomOnce:
    """Every record of a topic to one partition, drawn once: few connections, and balance over many producers."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._chosen: dict[str, int] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, size: int
    ) -> int:
        chosen = self._chosen.get(topic)
        if chosen is None:
            chosen = self._chosen[topic] = self._chance.choice(partitions.preferred)
        return chosen


class Users:
    """A user's callable."""

    def __init__(self, choose: UserPartitioner) -> None:
        self._choose = choose

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, size: int
    ) -> int:
        return self._choose(topic, key, value, partitions.count)
