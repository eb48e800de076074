"""JSON text whose numbers are compared as they are written: every digit of whole numbers and decimals counts."""

from __future__ import annotations

import decimal
import json
import math
from typing import Any

import numpy as np

SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Number(str):
    """A number as it is written."""


def read(text: str) -> Any:
    """A document, its numbers as `Number`. Raises AssertionError for what is no JSON."""

    def no_constant(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=no_constant)


def same(found: Any, expected: Any) -> bool:
    """Whether what was read is this value. Floats, of numpy's types too, are what their digits give; NaN is a text."""
    match expected:
        case dict():
            return found.keys() == expected.keys() and all(same(found[key], one) for key, one in expected.items())
        case list():
            return len(found) == len(expected) and all(map(same, found, expected))
        case bool() | str() | None:
            return type(found) is type(expected) and bool(found == expected)
        case float() | np.floating() if not math.isfinite(expected):
            return bool(found == SPECIAL[str(expected)])
    if not isinstance(found, Number):
        return False
    if isinstance(expected, float | np.floating):
        number = type(expected)(found)
        return bool(number == expected) and math.copysign(1, number) == math.copysign(1, expected)
    return found == (f"{expected:f}" if isinstance(expected, decimal.Decimal) else str(expected))
