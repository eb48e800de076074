"""The order in which Java's HashMap and HashSet give their keys.

Where two answers are equally good, Java's sticky assignors take the one that they meet first in a hash map. A group in
which the leader moves between a Java member and one of ours keeps its partitions where they are only if both choose
alike. The order: by the bucket of the (spread) hash code, in a bucket by insertion; buckets are a power of two, at
least 16, and more than three quarters full never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from client.partition import TopicPartition

K = TypeVar("K")
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & _MASK
    return value


def partition_hash(tp: TopicPartition) -> int:
    """`TopicPartition.hashCode`, as an unsigned number."""
    return (31 * (31 + tp.partition) + string_hash(tp.topic)) & _MASK


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
