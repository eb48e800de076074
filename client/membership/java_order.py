"""The order in which Java's HashMap and HashSet give their keys.

Where two answers are equally good, Java's sticky assignors take the one that they meet first in a hash map. A group in
which the leader moves between a Java member and one of ours keeps its partitions where they are only if both choose
alike. The order: by the bucket of the (spread) hash code, in a bucket by insertion; buckets are a power of two, at
least 16, and more than three quarters full never.
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
    """The keys, given by insertion, as a hash map gives them. `most`: how many it held at its fullest, if more."""
    inserted = list(keys)
    buckets = 16
    while max(len(inserted), most) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(inserted, key=bucket)
