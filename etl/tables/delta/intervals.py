"""Durations in table properties: intervals as Spark writes them (`interval 1 week 12 hours`)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_INTERVAL: Final = re.compile(r"(interval\s+)?(?P<parts>\d+\s+[a-z]+(\s+\d+\s+[a-z]+)*)", re.IGNORECASE)
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
"""Without months and years, which Delta does not allow in such properties: their length varies."""


def parse_interval(text: str) -> timedelta:
    """Raises ValueError: it is no such interval, or too long."""
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an interval")
    words = found["parts"].lower().split()
    total = timedelta()
    for number, unit in zip(words[::2], words[1::2], strict=True):
        name = unit if unit.endswith("s") else f"{unit}s"
        if name not in _UNITS:
            raise ValueError(f"{text!r} has the unit {unit}")
        try:
            total += timedelta(**{name: int(number)})
        except OverflowError:
            raise ValueError(f"{text!r} is too long") from None
    return total
