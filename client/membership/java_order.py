"""The iteration order of Java's HashMap and HashSet.

Among equally good choices, Java's sticky assignors take the first one in the order of a hash map. If a group's leader
changes from a Java member to one of ours, or back, partitions stay where they are only if both use the same order: by
the bucket of the (spread) hash code, within a bucket by insertion. The number of buckets is a power of two, at least
16; it doubles when the map is more than three quarters full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kseg.client.protocol.java_hash import MASK, string_hash
from kseg.client.protocol.partition import TopicPartition

K = TypeVar("K")


def partition_hash(tp: TopicPartition) -> int:
    """`TopicPartition.hashCode`, as an unsigned number."""
    return (31 * (31 + tp.partition) + string_hash(tp.topic)) & MASK


def in_hash_order(keys: Iterable[K], hash_of: Callable[[K], int], *, most: int = 0) -> list[K]:
    """Keys in a hash map's order; `keys` are in insertion order. `most`: the most keys that it has held, if more."""
    inserted = list(keys)
    buckets = 16
    while max(len(inserted), most) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(inserted, key=bucket)
