"""Compiled checks of many frames at once: the order of offsets, plausible headers."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.batch import (
    FRAME_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LEGACY_ATTRIBUTES_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAX_OFFSET,
    MIN_LENGTH,
    RECORDS_AT,
)
from kseg.segment_reader.decode.jit import compiled
from kseg.segment_reader.decode.primitives import be32, be64
from kseg.segment_reader.errors import Fault

MIN_MESSAGE, _, MIN_BATCH = MIN_LENGTH

#: A segment's offsets are numbered by 32 bits from its base offset on.
MOST_OFFSETS = 1 << 31

TOO_SMALL = int(Fault.TOO_SMALL)
NEGATIVE_OFFSET = int(Fault.NEGATIVE_OFFSET)
UNKNOWN_MAGIC = int(Fault.MAGIC)
COUNTS = int(Fault.COUNTS)
ORDER = int(Fault.OFFSET_ORDER)


@compiled
def chain(data: Any, edge: Any) -> Any:
    """Follows whole frames from the start of `data`: (bytes of them, offset after the last, fault of the next or 0).

    Every frame, also one whose end is not there, has to begin at or above `edge`, the offset after the one before it.
    A wrapper of magic 0 and 1 bears the last offset inside of it: where it begins is known only inside.
    """
    end = data.size
    at = 0
    while end - at >= FRAME_OVERHEAD:
        base = be64(data, at)
        length = be32(data, at + LENGTH_AT)
        if length < MIN_MESSAGE:
            return at, edge, TOO_SMALL
        if base < 0 or base > MAX_OFFSET:
            return at, edge, NEGATIVE_OFFSET
        if base < edge:
            return at, edge, ORDER
        if length > end - at - FRAME_OVERHEAD:
            break
        magic = data[at + MAGIC_AT]
        if magic > 2:
            return at, edge, UNKNOWN_MAGIC
        last = base
        if magic == 2:
            if length < MIN_BATCH:
                return at, edge, TOO_SMALL
            delta = be32(data, at + LAST_OFFSET_DELTA_AT)
            if delta < 0 or base > MAX_OFFSET - delta:
                return at, edge, COUNTS
            last = base + delta
        edge = last + 1
        at += FRAME_OVERHEAD + length
    return at, edge, 0


@compiled
def plausible(data: Any, at: Any, stop: Any, low: Any, high: Any, whole: Any) -> Any:
    """The first place in [at, stop) where a batch of offsets within [low, high) could begin, by its header; -1: none.

    `data` is the beginning of `whole` bytes; a batch has to end within those, and its header within `data`.
    """
    end = data.size
    while at < stop and end - at > LEGACY_ATTRIBUTES_AT:
        magic = data[at + MAGIC_AT]
        if magic <= 2:
            base = be64(data, at)
            length = be32(data, at + LENGTH_AT)
            least = MIN_BATCH if magic == 2 else MIN_MESSAGE
            if low <= base and base < high and least <= length and length <= whole - at - FRAME_OVERHEAD:
                if magic < 2:
                    return at
                if end - at >= RECORDS_AT:
                    delta = be32(data, at + LAST_OFFSET_DELTA_AT)
                    if delta >= 0 and delta < high - base:
                        return at
        at += 1
    return -1
