"""A maximum of records: a number, or a percentage of a run's."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from kseg.etl.config.values import AlsoWritten, InSchema, Text, fault


class AtMost(NamedTuple):
    """A number of records: `share` of all, rounded up, or just `number`.

    The share is exact: 0.07 * 100 of floats is above 7.
    """

    share: Fraction | None
    number: int

    def of(self, records: int) -> int:
        return self.number if self.share is None else math.ceil(self.share * records)


_PERCENT = re.compile(r"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?) ?%")


def _number_or_share(value: Any, info: ValidationInfo) -> Any:
    remedy = "a number of records, or a percentage of the run's: 1%"
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)) is not None and Fraction(found[1]) <= 100:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        if (info.context or {}).get("pinned", True):
            return value
        raise fault("is text where a number of records is expected", f"write {int(value)}, without quotes")
    raise fault(f"{value!r} is no number of records", remedy)


NumberOrShare = Annotated[
    Text,
    AlsoWritten(int),
    BeforeValidator(_number_or_share),
    InSchema(anyOf=[{"type": "string"}, {"type": "integer"}]),
]
"""`100`, or `1%`, as text."""


def at_most(text: str) -> AtMost:
    """The maximum that a NumberOrShare is."""
    percent = _PERCENT.fullmatch(text)
    return AtMost(Fraction(percent[1]) / 100, 0) if percent is not None else AtMost(None, int(text))
