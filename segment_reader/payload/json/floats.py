"""Compiled: digits and a power of ten to the nearest double or float, or "unsure", which the reference then reads.

Up to 2^53 and 10^22 both are doubles, and one operation rounds them once (Clinger, 1990). Beyond, the digits are
multiplied by the power of ten in 128 bits, rounded down; where that cannot change how the product rounds, it is rounded
(Lemire, "Number parsing at a gigabyte per second", 2021). What is left is rare: a product too near the middle of two
doubles, subnormal numbers, and numbers near the largest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.table import UNSURE
from kseg.segment_reader.payload.json.words import bits_of, double_of, high_product, leading_zeros

OUT_OF_RANGE = int(Status.OUT_OF_RANGE)

LEAST_POWER, MOST_POWER = -342, 308

U64 = np.uint64


def _powers() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """10^n as 128 bits whose first is set, rounded down: upper and lower half, for n from LEAST_POWER on."""
    rows = []
    for power in range(LEAST_POWER, MOST_POWER + 1):
        if power >= 0:
            shift = (10**power).bit_length() - 128
            value = 10**power >> shift if shift > 0 else 10**power << -shift
        else:
            divisor = 10**-power
            value = (1 << 127 + divisor.bit_length()) // divisor
            value >>= value.bit_length() - 128
        rows.append((value >> 64, value & (1 << 64) - 1))
    return np.array(rows, np.uint64)


POWERS = _powers()
TENS = np.array([10.0**n for n in range(23)])
UNSIGNED_TENS = np.array([10**n for n in range(20)], np.uint64)

_FLOAT_BOUND = float(2**128 - 2**103)  # from here on a number rounds to no float
_FLOAT_NORMAL = 2.0**-125
_BELOW_DOUBLE = 0x1FF  # of the product's upper half, what is below a double's 53 bits and one


@compiled
def _multiplied(digits: Any, power: Any, powers: Any) -> Any:
    """digits · 10^power, which is not zero, as a double's bits, or 0: unsure."""
    zeros = leading_zeros(digits)
    digits = digits << U64(zeros)
    row = power - LEAST_POWER
    high = high_product(digits, powers[row, 0])
    low = digits * powers[row, 0]
    if high & U64(_BELOW_DOUBLE) == U64(_BELOW_DOUBLE):
        # The power's lower half may carry into the bits that decide.
        more = high_product(digits, powers[row, 1])
        rest = digits * powers[row, 1]
        sum_ = low + more
        if sum_ < low:
            high += U64(1)
        low = sum_
        # What is cut off below the power's 128 bits is less than `digits`.
        if high & U64(_BELOW_DOUBLE) == U64(_BELOW_DOUBLE) and low == U64(0xFFFFFFFFFFFFFFFF) and rest + digits < rest:
            return U64(0)
    top = high >> U64(63)
    mantissa = high >> (top + U64(9))
    # The binary exponent of 10^power is floor(power · log2(10)), here by a fraction that is exact in this range.
    exponent = ((power * 217706) >> 16) + 1087 - zeros - 1 + np.int64(top)
    if low == U64(0) and high & U64(_BELOW_DOUBLE) == U64(0) and mantissa & U64(3) == U64(1):
        return U64(0)  # maybe exactly in the middle
    mantissa = (mantissa + (mantissa & U64(1))) >> U64(1)
    if mantissa >> U64(53):
        mantissa >>= U64(1)
        exponent += 1
    if exponent < 1 or exponent > 2046:
        return U64(0)
    return U64(exponent) << U64(52) | (mantissa & U64(0xFFFFFFFFFFFFF))


@inlined
def nearest_double(digits: Any, power: Any, powers: Any, tens: Any) -> Any:
    """0 and the double, or OUT_OF_RANGE, or UNSURE."""
    if digits == U64(0):
        return 0, 0.0
    if digits <= U64(1 << 53) and -22 <= power <= 22:
        value = np.float64(digits)
        return 0, value * tens[power] if power >= 0 else value / tens[-power]
    if power > MOST_POWER:
        return OUT_OF_RANGE, 0.0
    if power < LEAST_POWER - 22:
        return 0, 0.0
    if power < LEAST_POWER:
        return UNSURE, 0.0
    bits = _multiplied(digits, power, powers)
    return (UNSURE if bits == U64(0) else 0), double_of(bits)


@inlined
def nearest_float(value: Any) -> Any:
    """0 where the nearest double's nearest float is the number's, too; OUT_OF_RANGE; UNSURE."""
    if value > _FLOAT_BOUND:
        return OUT_OF_RANGE
    if value == _FLOAT_BOUND or (value < _FLOAT_NORMAL and value != 0.0):
        return UNSURE
    # In the middle of two floats the double may hide on which side of it the number is.
    return UNSURE if bits_of(value) & U64(0x1FFFFFFF) == U64(0x10000000) else 0
