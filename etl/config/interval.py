"""The job file's `interval:` section: when a data interval's end is closed (docs/guides/intervals.md)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from kseg.etl.config.faults import Finding
from kseg.etl.config.times import format_duration
from kseg.etl.config.values import Duration, Section, at_least

_MILLISECOND = timedelta(milliseconds=1)


class IntervalRules(Section):
    """Rules for boundaries; a boundary is a time T, closed in each partition by the first rule that says so.

    allowed_lateness: a record's time has to lie so far behind T before the record closes T.
    idle_after: so long after T, a partition without such a record is closed if another partition has one.
    max_wait: so long after T it is closed in any case.
    max_ahead: records whose time lies further ahead of the clock are no sign of anything.
    """

    allowed_lateness: Duration = timedelta(0)
    idle_after: Duration = timedelta(minutes=1)
    max_wait: Duration = timedelta(hours=1)
    max_ahead: Annotated[Duration, at_least(timedelta(seconds=1))] = timedelta(hours=1)

    @property
    def idle(self) -> timedelta:
        """`idle_after`, but never before records may be late."""
        return max(self.idle_after, self.allowed_lateness)

    @property
    def longest_wait(self) -> timedelta:
        return max(self.max_wait, self.allowed_lateness)

    @property
    def lateness_ms(self) -> int:
        return self.allowed_lateness // _MILLISECOND

    @property
    def idle_ms(self) -> int:
        return self.idle // _MILLISECOND

    @property
    def max_wait_ms(self) -> int:
        return self.longest_wait // _MILLISECOND

    @property
    def max_ahead_ms(self) -> int:
        return self.max_ahead // _MILLISECOND


def interval_findings(rules: IntervalRules) -> Iterator[Finding]:
    """What must hold between the keys that are given."""
    for key in sorted({"idle_after", "max_wait"} & rules.model_fields_set):
        if getattr(rules, key) < rules.allowed_lateness:
            yield Finding(
                ("interval", key),
                f"is shorter than allowed_lateness, {format_duration(rules.allowed_lateness)}",
                "late records that are allowed would be cut off: make it longer",
            )
