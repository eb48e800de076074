"""Java's hash codes, as far as Kafka's behaviour depends on them."""

from __future__ import annotations

from typing import Final

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
