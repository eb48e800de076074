"""Instants and durations: one meaning on every machine, one spelling once read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.times import epoch_millis, format_duration, format_instant, parse_duration, parse_instant


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00+00:00", "20260101T000000Z"]
)
def test_spellings_of_one_instant_are_one_value(text: str) -> None:
    assert parse_instant(text) == datetime(2026, 1, 1, tzinfo=UTC)
    assert format_instant(parse_instant(text)) == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01 12:00"])
def test_a_time_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["", "yesterday", "20260101:10:55", "2026-13-01T00:00:00Z", "2026-W01", "12:00Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an ISO 8601 time"):
        parse_instant(text)


def test_a_time_at_the_edge_of_the_calendar_is_refused_where_utc_cannot_hold_it() -> None:
    with pytest.raises(ValueError, match="outside"):
        parse_instant("0001-01-01T00:00:00+02:00")


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)))
def test_instants_survive_their_own_spelling(instant: datetime) -> None:
    assert parse_instant(format_instant(instant)) == instant
    # Not divided: a float has not that many digits.
    micros = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert 0 <= epoch_millis(instant) * 1000 - micros < 1000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2m", 120), ("1h30m", 5400), ("1h 30m", 5400), ("500ms", 0.5), ("1d", 86400), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "2 minutes", "-1m", "2m2m", "1y", "1e3s", "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|twice|too long"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_durations_survive_their_own_spelling(millis: int) -> None:
    duration = timedelta(milliseconds=millis)
    assert parse_duration(format_duration(duration)) == duration
