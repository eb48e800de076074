"""Compiled: parses numbers and base64 into columns, by the rules of `numbers` and `reference`.

Each function returns the position after the value; or a negative number, which is minus a Status or minus an answer of
`table`. UNSURE leaves the value to the reference implementation. Addresses: see `strings`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.floats import U64, nearest_double, nearest_float
from kseg.segment_reader.payload.json.formats import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from kseg.segment_reader.payload.json.shape import Kind
from kseg.segment_reader.payload.json.table import (
    BAD,
    N_CUT,
    N_DATA,
    N_KIND,
    N_NULLS_FAR,
    N_PRECISION,
    N_SHIFT,
    N_VALID,
    UNSURE,
)
from kseg.segment_reader.payload.json.words import high_product, store16
from kseg.segment_reader.payload.memory import load8, store8, store32, store64, store_double, store_float

OUT_OF_RANGE, INEXACT, WRONG_TYPE = -int(Status.OUT_OF_RANGE), -int(Status.INEXACT), -int(Status.WRONG_TYPE)
ASKED, UNGRAMMATICAL = -UNSURE, -BAD

INT8, INT16, INT32, INT64 = (int(kind) for kind in (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64))
FLOAT, DOUBLE, DECIMAL, DATE = int(Kind.FLOAT), int(Kind.DOUBLE), int(Kind.DECIMAL), int(Kind.DATE)

_FAR = 1 << 40  # larger exponents are treated as this one
_MANY = 20  # a number with so many digits may not fit into 64 bits


@compiled
def _long_number(p: Any, e: Any) -> Any:
    """Digits and point at p … e: the digits without zeros at their ends, how many these are, the power of ten."""
    digits = U64(0)
    count = 0
    zeros = 0  # that may be at the end
    power = 0
    behind_point = 0
    while p < e:
        c = load8(p)
        if c == 46:
            behind_point = 1
        else:
            power -= behind_point
            if c > 48:
                more = zeros + 1 if count else 1
                count += more
                zeros = 0
                if count < _MANY:
                    for _ in range(more):
                        digits *= U64(10)
                    digits += U64(c - 48)
            elif count:
                zeros += 1
        p += 1
    return digits, count, power + zeros


@compiled
def _exponent(p: Any, e: Any) -> Any:
    """The exponent whose digits or sign begin at p, and the position after it."""
    negative = False
    if p < e and (load8(p) == 43 or load8(p) == 45):
        negative = load8(p) == 45
        p += 1
    first = p
    value = 0
    while p < e and 48 <= load8(p) <= 57:
        if value < _FAR:
            value = value * 10 + load8(p) - 48
        p += 1
    if p == first:
        return 0, UNGRAMMATICAL
    return -value if negative else value, p


@inlined
def _number(p: Any, e: Any) -> Any:
    """The position after the number at p (or an answer), whether the number is negative, its digits, their count if
    these are too many (or 0), the power of ten."""
    negative = load8(p) == 45
    if negative:
        p += 1
    first = p
    digits = U64(0)
    power = 0
    while p < e:
        c = load8(p) - 48
        if c < 0 or c > 9:
            break
        digits = digits * U64(10) + U64(c)
        p += 1
    length = p - first
    count = 0
    if length == 0 or (length > 1 and load8(first) == 48):
        return UNGRAMMATICAL, negative, digits, count, power
    if p < e and load8(p) == 46:
        p += 1
        point = p
        while p < e:
            c = load8(p) - 48
            if c < 0 or c > 9:
                break
            digits = digits * U64(10) + U64(c)
            p += 1
        if p == point:
            return UNGRAMMATICAL, negative, digits, count, power
        power = point - p
        length += p - point
    if length > 19:
        digits, count, power = _long_number(first, p)
        if count < _MANY:
            count = 0
    if p < e and load8(p) | 32 == 101:
        exponent, p = _exponent(p + 1, e)
        power += exponent
    return p, negative, digits, count, power


@compiled
def _scaled(digits: Any, count: Any, power: Any, most_digits: Any, tens: Any) -> Any:
    """digits · 10^power as an integer: 0 or an answer, the digits and the zeros that follow them."""
    if count:
        if power < 0:
            return INEXACT, digits, power
        return (OUT_OF_RANGE if count + power > most_digits else ASKED), digits, power
    if digits == U64(0):
        return 0, digits, 0
    while power < 0 and digits % U64(10) == U64(0):
        digits //= U64(10)
        power += 1
    if power < 0:
        return INEXACT, digits, power
    size = 1
    while size < 20 and digits >= tens[size]:
        size += 1
    if size + power > most_digits:
        return OUT_OF_RANGE, digits, power
    return 0, digits, power


@inlined
def _integer(p: Any, e: Any, shift: Any, unsigned_tens: Any) -> Any:
    """The position after the number at p (or an answer), and the number times 10^shift as an integer of 64 bits."""
    p, negative, digits, count, power = _number(p, e)
    power += shift
    if p >= 0 and (power != 0 or count):
        answer, digits, power = _scaled(digits, count, power, 19, unsigned_tens)
        if answer < 0:
            # A number with too many digits never fits into 64 bits.
            p = OUT_OF_RANGE if answer == ASKED else answer
        else:
            digits *= unsigned_tens[power]
    value = np.int64(digits)
    if negative:
        value = -value
        if digits > U64(1 << 63) and p >= 0:
            p = OUT_OF_RANGE
    elif value < 0 and p >= 0:
        p = OUT_OF_RANGE
    return p, value


@inlined
def put_number(p: Any, e: Any, t: Any, node: Any, slot: Any, powers: Any, tens: Any, unsigned_tens: Any) -> Any:
    """A number into a column of integers, decimals, floats or doubles."""
    kind = t[node, N_KIND]
    data = t[node, N_DATA]
    if kind <= INT64:
        p, value = _integer(p, e, 0, unsigned_tens)
        if kind == INT64:
            store64(data + 8 * slot, value)
        elif kind == INT32:
            store32(data + 4 * slot, value)
            if value != np.int64(np.int32(value)) and p >= 0:
                p = OUT_OF_RANGE
        elif kind == INT16:
            store16(data + 2 * slot, value)
            if value != np.int64(np.int16(value)) and p >= 0:
                p = OUT_OF_RANGE
        else:
            store8(data + slot, value)
            if value != np.int64(np.int8(value)) and p >= 0:
                p = OUT_OF_RANGE
        return p
    if kind == DECIMAL:
        return _put_decimal(p, e, t, node, slot, unsigned_tens)
    p, negative, digits, count, power = _number(p, e)
    if p < 0:
        return p
    value = 0.0
    if count:
        answer = UNSURE
    else:
        answer, value = nearest_double(digits, power, powers, tens)
    if kind == FLOAT and answer == 0:
        answer = nearest_float(value)
    if answer:
        return -answer
    if negative:
        value = -value
    if kind == FLOAT:
        store_float(data + 4 * slot, np.float32(value))
    else:
        store_double(data + 8 * slot, value)
    return p


@compiled
def _put_decimal(p: Any, e: Any, t: Any, node: Any, slot: Any, unsigned_tens: Any) -> Any:
    p, negative, digits, count, power = _number(p, e)
    if p < 0:
        return p
    answer, digits, zeros = _scaled(digits, count, power + t[node, N_SHIFT], t[node, N_PRECISION], unsigned_tens)
    if answer < 0:
        return answer
    if zeros > 19:
        return ASKED
    low = digits * unsigned_tens[zeros]
    high = high_product(digits, unsigned_tens[zeros])
    if negative:
        low = ~low + U64(1)
        high = ~high + (U64(1) if low == U64(0) else U64(0))
    at = t[node, N_DATA] + 16 * slot
    store64(at, np.int64(low))
    store64(at + 8, np.int64(high))
    return p


@compiled
def put_epoch(p: Any, e: Any, t: Any, node: Any, slot: Any, unsigned_tens: Any) -> Any:
    """A number into a column of dates or timestamps."""
    p, value = _integer(p, e, t[node, N_SHIFT], unsigned_tens)
    if (p == INEXACT and t[node, N_CUT]) or (p == OUT_OF_RANGE and t[node, N_NULLS_FAR]):
        return ASKED
    if p < 0:
        return p
    first = FIRST_MICROS
    last = LAST_MICROS
    if t[node, N_KIND] == DATE:
        first = FIRST_DAY
        last = LAST_DAY
    if value < first or value > last:
        if t[node, N_NULLS_FAR] == 0:
            return OUT_OF_RANGE
        store8(t[node, N_VALID] + slot, 0)
        value = 0
    if t[node, N_KIND] == DATE:
        store32(t[node, N_DATA] + 4 * slot, value)
    else:
        store64(t[node, N_DATA] + 8 * slot, value)
    return p


# -- base64


@inlined
def _six_bits(c: Any) -> Any:
    if 65 <= c <= 90:
        return c - 65
    if 97 <= c <= 122:
        return c - 71
    if 48 <= c <= 57:
        return c + 4
    if c == 43:
        return 62
    if c == 47:
        return 63
    return -1


@compiled
def base64_in_place(start: Any, end: Any) -> Any:
    """Decodes the text at start … end in place. Returns the end of the decoded bytes, or WRONG_TYPE."""
    if (end - start) & 3:
        return WRONG_TYPE
    at = start
    p = start
    while p < end:
        padding = 0
        if p + 4 == end and load8(p + 3) == 61:
            padding = 2 if load8(p + 2) == 61 else 1
        word = 0
        for n in range(4 - padding):
            bits = _six_bits(load8(p + n))
            if bits < 0:
                return WRONG_TYPE
            word |= bits << 18 - 6 * n
        if word & ((1 << 8 * padding) - 1):
            return WRONG_TYPE
        store8(at, word >> 16)
        if padding < 2:
            store8(at + 1, word >> 8)
        if padding < 1:
            store8(at + 2, word)
        at += 3 - padding
        p += 4
    return at
