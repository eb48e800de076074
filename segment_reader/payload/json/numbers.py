"""JSON's numbers as values of columns, in plain Python: exact, or correctly rounded once, or a status.

A number is digits times a power of ten, and stays that until the column's type is known: no integer and no decimal goes
through a double. What is asked first is whether the column would round it (INEXACT), then whether it is too large.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np

from kseg.segment_reader.payload.decoder import Status

_FAR = 10**18
"""Exponents beyond are this one: no payload has so many digits."""

_FLOAT_BOUND = Decimal(2**128 - 2**103)
"""From here on a number rounds to no float: half a unit above the largest."""
_LARGEST = float(2**128 - 2**104)


class Unfit(Exception):
    """A number that the column has no value for. Attributes: `status`, `reason`."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Number(NamedTuple):
    """(-1)^negative · digits · 10^exponent; digits begin and end with no zero, and are empty for zero itself."""

    negative: bool
    digits: str
    exponent: int


def number_of(text: str) -> Number:
    """text: by JSON's grammar."""
    mantissa, _, exponent = text.lower().removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    sign, size = exponent[:1] == "-", exponent.lstrip("+-").lstrip("0")
    power = min(int(size), _FAR) if len(size) < 20 and size else _FAR if size else 0
    return Number(text[0] == "-", stripped, (-power if sign else power) - len(fraction) + len(digits) - len(stripped))


def scaled(text: str, shift: int, most_digits: int, type_name: str, *, cut: bool = False) -> int:
    """The number times 10^shift as an integer of so many digits. cut: the next lower one if it is none.

    Raises Unfit.
    """
    number = number_of(text)
    if not number.digits:
        return 0
    zeros = number.exponent + shift
    if zeros < 0 and not cut:
        raise Unfit(Status.INEXACT, f"{shown(text)} has more decimals than {type_name}")
    if len(number.digits) + zeros > most_digits:
        raise Unfit(Status.OUT_OF_RANGE, f"{shown(text)} is too large for {type_name}")
    if zeros < 0:
        value = int(number.digits[:zeros] or "0")
        return -value - 1 if number.negative else value
    value = int(number.digits + "0" * zeros)
    return -value if number.negative else value


def integer(text: str, bits: int, type_name: str) -> int:
    """Raises Unfit."""
    value = scaled(text, 0, 19, type_name)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise Unfit(Status.OUT_OF_RANGE, f"{shown(text)} is too large for {type_name}")
    return value


def decimal(text: str, precision: int, scale: int, type_name: str) -> Decimal:
    """Raises Unfit."""
    unscaled = scaled(text, scale, precision, type_name)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def double(text: str) -> float:
    """Correctly rounded, which Python's own is. Raises Unfit."""
    value = float(text)
    if abs(value) == float("inf"):
        raise Unfit(Status.OUT_OF_RANGE, f"{shown(text)} is too large for double")
    return value


def single(text: str) -> float:
    """The nearest float, ties to even; rounding to a double first could miss it. Raises Unfit."""
    number = number_of(text)
    magnitude = len(number.digits) + number.exponent
    sign = -1.0 if number.negative else 1.0
    if not number.digits or magnitude < -60:
        return 0.0 * sign
    exact = Decimal(0) if magnitude > 60 else Decimal(text.lstrip("-"))
    if magnitude > 60 or exact >= _FLOAT_BOUND:
        raise Unfit(Status.OUT_OF_RANGE, f"{shown(text)} is too large for float")
    near = np.float32(min(float(exact), _LARGEST))
    for to in (0.0, _LARGEST):
        neighbour = np.nextafter(near, np.float32(to))
        middle = Decimal((float(near) + float(neighbour)) / 2)  # a double holds it exactly, as does a Decimal
        beyond = exact > middle if neighbour > near else exact < middle
        if neighbour != near and (beyond or (exact == middle and int(near.view(np.uint32)) & 1)):
            return sign * float(neighbour)
    return sign * float(near)


def shown(text: str) -> str:
    """A value in a message: not more than forty characters of it."""
    return text if len(text) <= 40 else f"{text[:36]}…"
