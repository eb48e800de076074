"""Large numbers in three digits and a unit's prefix: 12_345 is 12.3 k."""

from __future__ import annotations

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# From this share of a unit on, three digits round up to 1000 of the smaller unit, which "g" writes as 1e+03.
_ROUNDS_UP = 0.9995


def scaled(number: float) -> tuple[float, str]:
    """The number divided by its prefix, and the prefix; "" below a thousand."""
    for size, prefix in _PREFIXES:
        if abs(number) >= _ROUNDS_UP * size:
            return number / size, prefix
    return number, ""
