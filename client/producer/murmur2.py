"""The 32-bit murmur2 of Java's default partitioner: which partition a key belongs to, everywhere the same.

Source: the public domain algorithm of Austin Appleby, with Kafka's seed; parity with Java's `Utils.murmur2` is tested.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

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
