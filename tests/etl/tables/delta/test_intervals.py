from __future__ import annotations

from datetime import timedelta

import pytest

from kseg.etl.tables.delta.intervals import parse_interval


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("interval 1 week", timedelta(weeks=1)),
        (" INTERVAL 2 Weeks 3 days 4 hour ", timedelta(weeks=2, days=3, hours=4)),
        ("168 hours", timedelta(days=7)),
        ("interval 0 seconds", timedelta()),
        ("interval 1 millisecond 2 microseconds", timedelta(microseconds=1002)),
    ],
)
def test_an_interval_is_the_sum_of_its_parts(text: str, duration: timedelta) -> None:
    assert parse_interval(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", "interval", "7", "interval 7", "P7D", "interval 1 month", "interval -1 days", f"interval {10**12} weeks"],
)
def test_what_is_no_interval_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_interval(text)
