"""Compiled: whether a map's keys are unique, which Arrow and Spark ask for."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.memory import load8, load32, shift_right

#: Maps of at most so many entries compare each key with each other.
_FEW_KEYS = 8


@inlined
def _same(a: Any, b: Any, size: Any) -> Any:
    n = 0
    while n < size and load8(a + n) == load8(b + n):
        n += 1
    return n == size


@inlined
def _key(offsets: Any, data: Any, width: Any, k: Any) -> Any:
    """Address and size of a key."""
    if offsets:
        start = load32(offsets + 4 * k)
        return data + start, load32(offsets + 4 * k + 4) - start
    return data + width * k, width


@compiled
def repeats_a_key(offsets: Any, data: Any, width: Any, first: Any, behind: Any, scratch: Any, seed: Any) -> Any:
    """Whether two of a map's keys are the same. offsets: 0 where keys have one width.

    scratch: a hash table, of four places a key. seed: of the hashes, so that nobody can choose keys that share a place.
    """
    count = behind - first
    if count <= _FEW_KEYS:
        for k in range(first + 1, behind):
            at, size = _key(offsets, data, width, k)
            for other in range(first, k):
                start, length = _key(offsets, data, width, other)
                if length == size and _same(at, start, size):
                    return True
        return False
    places = 16
    while places < 2 * count:
        places *= 2
    for place in range(places):
        scratch[place] = -1
    for k in range(first, behind):
        at, size = _key(offsets, data, width, k)
        mixed = seed ^ size
        for n in range(size):
            mixed = (mixed ^ load8(at + n)) * 0x100000001B3
        place = (mixed ^ shift_right(mixed, 32)) & (places - 1)
        while scratch[place] >= 0:
            start, length = _key(offsets, data, width, scratch[place])
            if length == size and _same(at, start, size):
                return True
            place = (place + 1) & (places - 1)
        scratch[place] = k
    return False
