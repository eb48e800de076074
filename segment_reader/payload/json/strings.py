"""Compiled: checks JSON strings by the rules of `document`, or copies them unescaped; hashes of names.

All positions are addresses: `p` is the next byte to read, `e` the end of the payload, `limit` the end of all payloads,
up to which eight bytes are read at a time. Negative results are minus a Status, or minus an answer of `table`.
"""

from __future__ import annotations

from typing import Any

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.table import GROW_TEXT
from kseg.segment_reader.payload.json.words import trailing_zeros
from kseg.segment_reader.payload.memory import load8, load64, store8, store64

TRUNCATED = -int(Status.TRUNCATED)
MALFORMED = -int(Status.MALFORMED)
INVALID_UTF8 = -int(Status.INVALID_UTF8)
TOO_SMALL = -GROW_TEXT

#: Bytes after a text's end that may be overwritten, and that its buffer must have.
SLACK = 8

_ONES = 0x0101010101010101
_HIGH = -0x7F7F7F7F7F7F7F80  # 0x80 in each byte
_QUOTES = 0x2222222222222222
_BACKSLASHES = 0x5C5C5C5C5C5C5C5C
_SPACES = 0x2020202020202020

_FNV = 0xCBF29CE484222325 - (1 << 64)
_PRIME = 0x100000001B3


@inlined
def special(word: Any) -> Any:
    """The top bit of each byte that ends a plain run: a quote, a backslash, a control character, or not ASCII.

    Only the lowest set bit is exact; higher bits may be set by a borrow of the subtraction.
    """
    quote = word ^ _QUOTES
    backslash = word ^ _BACKSLASHES
    below = (word - _SPACES) & ~word
    return (word | below | ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash)) & _HIGH


@inlined
def space(p: Any, e: Any) -> Any:
    """The position after white space."""
    while p < e:
        c = load8(p)
        if c > 32 or (c != 32 and c != 10 and c != 13 and c != 9):
            break
        p += 1
    return p


@compiled
def character(p: Any, e: Any) -> Any:
    """The number of bytes of the UTF-8 character at p, which is not ASCII."""
    lead = load8(p)
    if lead < 0xC2 or lead > 0xF4:
        return INVALID_UTF8
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    low = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
    high = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
    for n in range(1, size):
        if p + n >= e:
            return TRUNCATED
        byte = load8(p + n)
        if byte < low or byte > high:
            return INVALID_UTF8
        low = 0x80
        high = 0xBF
    return size


@compiled
def unit(p: Any, e: Any) -> Any:
    """Four hexadecimal digits."""
    value = 0
    for n in range(4):
        if p + n >= e:
            return TRUNCATED
        c = load8(p + n)
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            return MALFORMED
        value = value * 16 + digit
    return value


@compiled
def escape(p: Any, e: Any) -> Any:
    """The code point of the escape at p, and the position after it; a negative position is an answer."""
    if p + 1 >= e:
        return 0, TRUNCATED
    c = load8(p + 1)
    if c == 34 or c == 92 or c == 47:
        return c, p + 2
    if c == 110:
        return 10, p + 2
    if c == 116:
        return 9, p + 2
    if c == 114:
        return 13, p + 2
    if c == 98:
        return 8, p + 2
    if c == 102:
        return 12, p + 2
    if c != 117:
        return 0, MALFORMED
    high = unit(p + 2, e)
    if high < 0:
        return 0, high
    if high < 0xD800 or high >= 0xE000:
        return high, p + 6
    if high >= 0xDC00:
        return 0, MALFORMED
    if p + 6 >= e:
        return 0, TRUNCATED
    if load8(p + 6) != 92:
        return 0, MALFORMED
    if p + 7 >= e:
        return 0, TRUNCATED
    if load8(p + 7) != 117:
        return 0, MALFORMED
    low = unit(p + 8, e)
    if low < 0:
        return 0, low
    if low < 0xDC00 or low >= 0xE000:
        return 0, MALFORMED
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), p + 12


@inlined
def put_character(at: Any, code: Any) -> Any:
    """Writes a code point as UTF-8. Returns the position after it."""
    if code < 0x80:
        store8(at, code)
        return at + 1
    if code < 0x800:
        store8(at, 0xC0 | code >> 6)
        store8(at + 1, 0x80 | (code & 0x3F))
        return at + 2
    if code < 0x10000:
        store8(at, 0xE0 | code >> 12)
        store8(at + 1, 0x80 | (code >> 6 & 0x3F))
        store8(at + 2, 0x80 | (code & 0x3F))
        return at + 3
    store8(at, 0xF0 | code >> 18)
    store8(at + 1, 0x80 | (code >> 12 & 0x3F))
    store8(at + 2, 0x80 | (code >> 6 & 0x3F))
    store8(at + 3, 0x80 | (code & 0x3F))
    return at + 4


@compiled
def skip_string(p: Any, e: Any, limit: Any) -> Any:
    """The position after the closing quote of the string whose first character is at p."""
    while True:
        if p + 8 <= limit:
            found = special(load64(p))
            if found == 0:
                p += 8
                if p >= e:
                    return TRUNCATED
                continue
            p += trailing_zeros(found) >> 3
        if p >= e:
            return TRUNCATED
        c = load8(p)
        if c == 34:
            return p + 1
        if c == 92:
            _, p = escape(p, e)
            if p < 0:
                return p
        elif c < 32:
            return MALFORMED
        elif c < 128:
            p += 1
        else:
            size = character(p, e)
            if size < 0:
                return size
            p += size


@compiled
def rest_of_string(p: Any, e: Any, limit: Any, at: Any, end: Any) -> Any:
    """`copy_string`, beginning at any character."""
    while True:
        if at + SLACK > end:
            return TOO_SMALL, at
        if p + 8 <= limit:
            word = load64(p)
            store64(at, word)
            found = special(word)
            if found == 0:
                p += 8
                at += 8
                if p >= e:
                    return TRUNCATED, at
                continue
            plain = trailing_zeros(found) >> 3
            p += plain
            at += plain
            if at + SLACK > end:
                return TOO_SMALL, at
        if p >= e:
            return TRUNCATED, at
        c = load8(p)
        if c == 34:
            return p + 1, at
        if c == 92:
            code, p = escape(p, e)
            if p < 0:
                return p, at
            at = put_character(at, code)
        elif c < 32:
            return MALFORMED, at
        elif c < 128:
            store8(at, c)
            p += 1
            at += 1
        else:
            size = character(p, e)
            if size < 0:
                return size, at
            for n in range(size):
                store8(at + n, load8(p + n))
            p += size
            at += size


@inlined
def copy_string(p: Any, e: Any, limit: Any, at: Any, end: Any) -> Any:
    """Copies the string whose first character is at p, unescaped, to address `at`. Returns the positions after its
    closing quote and after the copy. end: the end of the buffer, of which SLACK bytes stay free."""
    while p + 8 <= limit and at + SLACK <= end:
        word = load64(p)
        store64(at, word)
        found = special(word)
        if found:
            plain = trailing_zeros(found) >> 3
            if p + plain < e and load8(p + plain) == 34:
                return p + plain + 1, at + plain
            break
        p += 8
        at += 8
        if p >= e:
            break
    return rest_of_string(p, e, limit, at, end)


@compiled
def hash_at(p: Any, e: Any) -> Any:
    """FNV-1a, as `table.hash_of`."""
    value = _FNV
    while p < e:
        value = (value ^ load8(p)) * _PRIME
        p += 1
    return value


@compiled
def same(one: Any, other: Any, size: Any) -> Any:
    """Whether two texts of the same size are equal."""
    n = 0
    while n + 8 <= size:
        if load64(one + n) != load64(other + n):
            return False
        n += 8
    while n < size:
        if load8(one + n) != load8(other + n):
            return False
        n += 1
    return True
