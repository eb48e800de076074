"""Compiled: variable-length numbers, decimals of 128 bits as two words, and UUIDs as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.memory import load8, shift_right, store8, store64

_TRUNCATED = int(Status.TRUNCATED)
_MALFORMED = int(Status.MALFORMED)
_OUT_OF_RANGE = int(Status.OUT_OF_RANGE)
_INEXACT = int(Status.INEXACT)

SIGN = -(2**63)
DIGITS = 38  # of the largest decimal


def _word(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


#: 10**n for n up to 38, upper and lower word.
POWERS = np.array([(_word(10**n >> 64), _word(10**n)) for n in range(39)], np.int64)


@inlined
def read_number(base: Any, p: Any, end: Any) -> Any:
    """(value, position behind it); the position is minus the status where there is no number."""
    if p >= end:
        return 0, -_TRUNCATED
    byte = load8(base + p)
    p += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), p
    value = byte & 0x7F
    shift = 7
    while True:
        if p >= end:
            return 0, -_TRUNCATED
        byte = load8(base + p)
        p += 1
        if shift == 63 and byte > 1:
            return 0, -_MALFORMED
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return shift_right(value, 1) ^ -(value & 1), p
        shift += 7


@inlined
def _below(a: Any, b: Any) -> Any:
    """a < b as unsigned numbers."""
    return (a ^ SIGN) < (b ^ SIGN)


@compiled
def _read_decimal(at: Any, size: Any) -> Any:
    """(whether it fits, upper word, lower word) of a big-endian number in two's complement."""
    sign = -(load8(at) >> 7)
    n = 0
    if size > 16:
        while n < size - 16:
            if load8(at + n) != sign & 0xFF:
                return False, 0, 0
            n += 1
        if -(load8(at + n) >> 7) != sign:
            return False, 0, 0
    upper = sign
    lower = sign
    while n < size:
        upper = (upper << 8) | shift_right(lower, 56)
        lower = (lower << 8) | load8(at + n)
        n += 1
    return True, upper, lower


@compiled
def _decimal_fits(upper: Any, lower: Any, digits: Any) -> Any:
    """Whether the number has at most so many digits."""
    if upper < 0:
        upper = ~upper + (1 if lower == 0 else 0)
        lower = -lower
    most = POWERS[digits, 0]
    return _below(upper, most) or (upper == most and _below(lower, POWERS[digits, 1]))


@compiled
def _times_ten(upper: Any, lower: Any) -> Any:
    """The result must fit."""
    eight = (upper << 3) | shift_right(lower, 61)
    two = (upper << 1) | shift_right(lower, 63)
    low = (lower << 3) + (lower << 1)
    carry = 1 if _below(low, lower << 3) else 0
    return eight + two + carry, low


@compiled
def _divide_by_ten(upper: Any, lower: Any) -> Any:
    """(remainder, upper, lower), towards zero: 32 bits at a time."""
    negative = upper < 0
    if negative:
        upper = ~upper + (1 if lower == 0 else 0)
        lower = -lower
    rest = 0
    high = 0
    low = 0
    for n in range(4):
        word = upper if n < 2 else lower
        part = (rest << 32) | (shift_right(word, 32) if n % 2 == 0 else word & 0xFFFFFFFF)
        rest = part % 10
        if n < 2:
            high = (high << 32) | (part // 10)
        else:
            low = (low << 32) | (part // 10)
    if negative:
        high = ~high + (1 if low == 0 else 0)
        low = -low
    return rest, high, low


@compiled
def write_decimal(target: Any, at: Any, size: Any, digits: Any, shift: Any) -> Any:
    """Stores a decimal whose scale grows by `shift`; returns the status."""
    if size == 0:
        return _MALFORMED
    fits, upper, lower = _read_decimal(at, size)
    if not fits or not _decimal_fits(upper, lower, DIGITS):
        return _OUT_OF_RANGE
    for _ in range(-shift):
        rest, upper, lower = _divide_by_ten(upper, lower)
        if rest:
            return _INEXACT
    if not _decimal_fits(upper, lower, max(digits - max(shift, 0), 0)):
        return _OUT_OF_RANGE
    for _ in range(shift):
        upper, lower = _times_ten(upper, lower)
    store64(target, lower)
    store64(target + 8, upper)
    return 0


@inlined
def _digit(value: Any) -> Any:
    return value + (48 if value < 10 else 87)


@compiled
def write_uuid(target: Any, source: Any) -> None:
    """16 bytes as 36 characters."""
    at = target
    for n in range(16):
        if n == 4 or n == 6 or n == 8 or n == 10:
            store8(at, 45)
            at += 1
        byte = load8(source + n)
        store8(at, _digit(byte >> 4))
        store8(at + 1, _digit(byte & 15))
        at += 2
