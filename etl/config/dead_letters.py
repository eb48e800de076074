"""`sink.dead_letters`: where records that cannot be decoded land, and how many a run may have."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

from kseg.etl.config.continuation import AsPlanned, AtContinuation
from kseg.etl.config.values import Duration, InSchema, Section, TablePath, Text, at_least, fault


class AtMost(NamedTuple):
    """A number of records: `share` of all, rounded up, or just `number`.

    The share is exact: 0.07 * 100 of floats is above 7.
    """

    share: Fraction | None
    number: int

    def of(self, records: int) -> int:
        return self.number if self.share is None else math.ceil(self.share * records)


_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")


def _at_most(value: Any) -> Any:
    remedy = "a number of records, or a percentage of the run's: 1%"
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)) is not None and Fraction(found[1]) <= 100:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return value
    raise fault(f"{value!r} is no number of records", remedy)


class DeadLetters(Section):
    """Where records that cannot be decoded land. path: beside the table, unless given. max: how many a run may have.

    retention: how long `kseg maintain` leaves them there, from the end of their run; None: for ever.
    """

    path: AsPlanned[TablePath | None] = None
    max: AtContinuation[
        Annotated[Text, BeforeValidator(_at_most), InSchema(anyOf=[{"type": "string"}, {"type": "integer"}])]
    ] = "1%"
    retention: AtContinuation[Annotated[Duration, at_least(timedelta(days=1))] | None] = None

    @property
    def at_most(self) -> AtMost:
        percent = _PERCENT.fullmatch(self.max)
        return AtMost(Fraction(percent[1]) / 100, 0) if percent is not None else AtMost(None, int(self.max))
