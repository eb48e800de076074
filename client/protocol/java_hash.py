"""Java's hash codes and the iteration order of its hash maps, as far as Kafka's behaviour depends on them.

Among equally good choices, Java's sticky assignors take the first one in the order of a hash map. If a group's leader
changes from a Java member to one of ours, or back, partitions stay where they are only if both use the same order: by
the bucket of the (spread) hash code, within a bucket by insertion. The number of buckets is a power of two, at least
16; it doubles when the map is more than three quarters full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kseg.client.protocol.partition import TopicPartition

MASK: Final = 0xFFFFFFFF
_LEAST_INT: Final = 1 << 31


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number: over UTF-16, so a character beyond 16 bits counts as two."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & MASK
    return value


def coordinator_partition(key: str, partitions: int) -> int:
    """The partition of its coordinator's topic that holds a group's records, or a transactional id's.

    `Utils.abs(key.hashCode()) % partitions`; `Utils.abs` returns 0 for the smallest int.
    Raises ValueError for a count that is not positive.
    """
    if partitions < 1:
        raise ValueError(f"{partitions} is not a count of partitions")
    unsigned = string_hash(key)
    signed = unsigned - (MASK + 1) if unsigned >= _LEAST_INT else unsigned
    return (0 if signed == -_LEAST_INT else abs(signed)) % partitions


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
