"""Compiled: bytes copied between addresses, and checked to be UTF-8 while they are."""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.memory import load8, load64, memcpy, store8, store64

#: Bytes behind a target's end that may be overwritten: short texts are copied eight bytes at a time.
SLACK = 8

HIGH_BITS = -0x7F7F7F7F7F7F7F80  # 0x80 in each byte


@compiled
def is_utf8(at: Any, size: Any) -> Any:
    """Whether these bytes are UTF-8: no overlong form, no surrogate, nothing beyond U+10FFFF."""
    n = 0
    while n < size:
        byte = load8(at + n)
        if byte < 0x80:
            n += 1
            continue
        low, high = 0x80, 0xBF
        if byte < 0xC2:
            return False
        if byte < 0xE0:
            more = 1
        elif byte < 0xF0:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif byte < 0xF5:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if size - n <= more:
            return False
        following = load8(at + n + 1)
        if following < low or following > high:
            return False
        for k in range(2, more + 1):
            if load8(at + n + k) & 0xC0 != 0x80:
                return False
        n += more + 1
    return True


@inlined
def copy_text(target: Any, source: Any, size: Any, spare: Any) -> Any:
    """Copies, and returns whether it is UTF-8. spare: how many bytes may be read behind the source's."""
    seen = 0
    n = 0
    if spare >= 8:
        while n + 8 <= size:
            word = load64(source + n)
            store64(target + n, word)
            seen |= word
            n += 8
        rest = size - n
        if rest:
            word = load64(source + n)
            store64(target + n, word)
            seen |= word << (64 - 8 * rest)
    else:
        while n < size:
            byte = load8(source + n)
            store8(target + n, byte)
            seen |= byte
            n += 1
    return seen & HIGH_BITS == 0 or is_utf8(source, size)


@inlined
def copy_bytes(target: Any, source: Any, size: Any, spare: Any) -> None:
    if size <= 16 and spare >= 16:
        store64(target, load64(source))
        if size > 8:
            store64(target + 8, load64(source + 8))
    else:
        memcpy(target, source, size)
