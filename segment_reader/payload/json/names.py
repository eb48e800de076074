"""Compiled: a member's name among the declared fields, and keys of a map that are written twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.floats import U64
from kseg.segment_reader.payload.json.strings import hash_at, same
from kseg.segment_reader.payload.json.table import (
    GROW_SEEN,
    N_DATA,
    N_HASHES,
    N_MASK,
    N_NAME,
    N_OFFSETS,
    N_SIZE,
)
from kseg.segment_reader.payload.json.words import high_product
from kseg.segment_reader.payload.memory import load8, load32, load64

DUPLICATE_KEY = int(Status.DUPLICATE_KEY)

_FEW_KEYS = 8


@inlined
def is_name(p: Any, e: Any, limit: Any, t: Any, child: Any, names: Any, masks: Any) -> Any:
    """Whether this field's name, as it is written, and a quote are at p."""
    size = t[child, N_SIZE]
    if size <= 0 or size > e - p or size + 8 > limit - p:
        return False
    name = names + t[child, N_NAME]
    while size > 8:
        if load64(p) != load64(name):
            return False
        p += 8
        name += 8
        size -= 8
    return (load64(p) ^ load64(name)) & masks[size] == 0


@compiled
def field(p: Any, e: Any, t: Any, node: Any, children: Any, hashes: Any, names: Any) -> Any:
    """Which field of a struct has the name at p … e; its number or -1."""
    mask = t[node, N_MASK]
    at = hash_at(p, e) & mask
    while True:
        child = hashes[t[node, N_HASHES] + at]
        if child == 0:
            return -1
        size = abs(t[child, N_SIZE]) - 1
        if size == e - p and same(p, names + t[child, N_NAME], size):
            return child
        at = (at + 1) & mask


@compiled
def _seeded_hash(p: Any, size: Any, seed: Any) -> Any:
    """Of keys that a producer chooses: who does not know the seed cannot make many of them share a place."""
    factor = U64(seed) | U64(1)
    value = factor ^ U64(size)
    while size > 0:
        word = 0
        if size >= 8:
            word = load64(p)
        else:
            for n in range(size):
                word |= load8(p + n) << 8 * n
        value ^= U64(word)
        value = value * factor ^ high_product(value, factor)
        p += 8
        size -= 8
    return np.int64(value)


@compiled
def has_twice(t: Any, keys: Any, first: Any, last: Any, seen: Any, seed: Any) -> Any:
    """Whether two slots of a map's keys are the same; 0, DUPLICATE_KEY, or GROW_SEEN."""
    offsets = t[keys, N_OFFSETS]
    data = t[keys, N_DATA]
    few = last - first <= _FEW_KEYS
    mask = 0
    if not few:
        size = 16
        while size < 2 * (last - first):
            size *= 2
        if seen.shape[0] < size:
            return GROW_SEEN
        mask = size - 1
        for n in range(size):
            seen[n] = -1
    for slot in range(first, last):
        start = load32(offsets + 4 * slot)
        size = load32(offsets + 4 * slot + 4) - start
        if few:
            for other in range(first, slot):
                place = load32(offsets + 4 * other)
                if load32(offsets + 4 * other + 4) - place == size and same(data + place, data + start, size):
                    return DUPLICATE_KEY
        else:
            at = _seeded_hash(data + start, size, seed) & mask
            while seen[at] >= 0:
                place = load32(offsets + 4 * seen[at])
                if load32(offsets + 4 * seen[at] + 4) - place == size and same(data + place, data + start, size):
                    return DUPLICATE_KEY
                at = (at + 1) & mask
            seen[at] = slot
    return 0
