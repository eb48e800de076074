"""Compiled: checks JSON's grammar by the rules of `document`, for values without a column and for rejected documents.

Addresses and answers: see `strings`.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.strings import MALFORMED, TRUNCATED, skip_string, space
from kseg.segment_reader.payload.memory import load8

TOO_DEEP = -int(Status.TOO_DEEP)
TRAILING = -int(Status.TRAILING_BYTES)


@inlined
def _digits(p: Any, e: Any) -> Any:
    if p >= e:
        return TRUNCATED
    if load8(p) < 48 or load8(p) > 57:
        return MALFORMED
    while p < e and 48 <= load8(p) <= 57:
        p += 1
    return p


@compiled
def skip_number(p: Any, e: Any) -> Any:
    """The position after the number at p."""
    if load8(p) == 45:
        p += 1
    first = p
    p = _digits(p, e)
    if p < 0:
        return p
    if load8(first) == 48 and p > first + 1:
        return MALFORMED
    if p < e and load8(p) == 46:
        p = _digits(p + 1, e)
        if p < 0:
            return p
    if p < e and load8(p) | 32 == 101:
        p += 1
        if p < e and (load8(p) == 43 or load8(p) == 45):
            p += 1
        p = _digits(p, e)
    return p


@compiled
def literal(p: Any, e: Any) -> Any:
    """The position after `null`, `true` or `false`; p: at any byte that begins no other value."""
    c = load8(p)
    if c == 110:
        word = 0x6C6C756E
        size = 4
    elif c == 116:
        word = 0x65757274
        size = 4
    elif c == 102:
        word = 0x65736C6166
        size = 5
    else:
        return MALFORMED
    for n in range(size):
        if p + n >= e:
            return TRUNCATED
        if load8(p + n) != word >> 8 * n & 0xFF:
            return MALFORMED
    return p + size


@compiled
def _name(p: Any, e: Any, limit: Any) -> Any:
    """The position after a member's name, its colon and white space."""
    if p >= e:
        return TRUNCATED
    if load8(p) != 34:
        return MALFORMED
    p = skip_string(p + 1, e, limit)
    if p < 0:
        return p
    p = space(p, e)
    if p >= e:
        return TRUNCATED
    if load8(p) != 58:
        return MALFORMED
    return space(p + 1, e)


@compiled
def skip_value(p: Any, e: Any, limit: Any, depth: Any, max_depth: Any, opened: Any) -> Any:
    """The position after the value at p. depth: how many objects and arrays are open; opened: a byte for each level."""
    outside = depth
    while True:
        if p >= e:
            return TRUNCATED
        c = load8(p)
        if c == 34:
            p = skip_string(p + 1, e, limit)
        elif c == 123 or c == 91:
            if depth == max_depth:
                return TOO_DEEP
            p = space(p + 1, e)
            if p < e and load8(p) == c + 2:
                p += 1
            else:
                opened[depth] = c
                depth += 1
                if c == 123:
                    p = _name(p, e, limit)
                    if p < 0:
                        return p
                continue
        elif c == 45 or 48 <= c <= 57:
            p = skip_number(p, e)
        else:
            p = literal(p, e)
        if p < 0:
            return p
        while True:
            if depth == outside:
                return p
            p = space(p, e)
            if p >= e:
                return TRUNCATED
            c = load8(p)
            around = opened[depth - 1]
            if c == 44:
                p = space(p + 1, e)
                if around == 123:
                    p = _name(p, e, limit)
                    if p < 0:
                        return p
                break
            if c != around + 2:
                return MALFORMED
            p += 1
            depth -= 1


@compiled
def status_of(p: Any, e: Any, limit: Any, max_depth: Any, opened: Any) -> Any:
    """0 if the document is valid, otherwise the Status of its first grammar error."""
    if e - p >= 3 and load8(p) == 0xEF and load8(p + 1) == 0xBB and load8(p + 2) == 0xBF:
        return -MALFORMED
    p = skip_value(space(p, e), e, limit, 0, max_depth, opened)
    if p < 0:
        return -p
    if space(p, e) < e:
        return -TRAILING
    return 0
