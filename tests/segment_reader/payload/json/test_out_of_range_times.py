"""Dates and timestamps that no column holds: an error, or null where the job says so, in both decoders."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.segment_reader.payload.decoder import Status

#: Kind of column -> its format, and the values of other systems: PostgreSQL's JDBC driver has ±infinity as milliseconds
#: that Debezium writes as microseconds too, `java.time` has a sign before years of more than four digits.
FAR: dict[tuple[str, str], list[Any]] = {
    ("timestamp", "iso8601"): [
        *("infinity", "-infinity", "+292278994-08-16T23:00:00Z", "-292275055-05-16T23:00:00Z", "0000-01-01T00:00:00Z"),
        *("10000-01-01 00:00:00+00", "294276-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.9999999-05:00"),
        *("0001-01-01T00:00:00+01:00", "+10000-02-29T12:00Z"),
    ],
    ("timestamp_ntz", "iso8601"): ["infinity", "-infinity", "+10000-01-01T00:00:00", "-0001-12-31 10:00"],
    ("date", "iso8601"): ["infinity", "-infinity", "+5881580-07-11", "10000-02-29", "0000-12-31", "-4713-01-01"],
    ("timestamp", "epoch_millis"): [
        9223372036825200000,
        -9223372036832400000,
        253402300800000,
        -62135596800001,
        "infinity",
    ],
    ("timestamp_ntz", "epoch_micros"): [
        9223372036825200000,
        -9223372036832400000,
        253402300800000000,
        10**25,
        -(10**19),
    ],
    ("timestamp", "epoch_seconds"): [253402300800, 1e300, "-infinity"],
    ("date", "epoch_days"): [-2147472692, 2147483647, 2932897, -719163, 10**30],
    ("timestamp_ntz", "yyyy-MM-dd HH:mm:ss"): ["infinity", "-infinity"],
    ("date", "dd.MM.yyyy"): ["infinity"],
}
#: What is wrong with a text or number in another way than by its year.
WRONG: dict[tuple[str, str], list[Any]] = {
    ("timestamp", "iso8601"): [
        *(
            "10001-02-29T00:00:00Z",
            "10000-13-01T00:00:00Z",
            "10000-01-01T24:00:00Z",
            "10000-01-01",
            "+2024-01-01T00:00Z",
        ),
        *(
            "10000-01-01T00:00:00",
            "Infinity",
            "+infinity",
            " infinity",
            "",
            "0000-00-00 00:00:00Z",
            "1234567890-01-01T00:00Z",
        ),
        *(253402300800000, True, ["infinity"]),
    ],
    ("timestamp_ntz", "iso8601"): ["10000-01-01T00:00:00Z"],
    ("date", "iso8601"): ["10001-02-29", "0000-00-00", "10000-01-01T00:00:00", "2024-02-30"],
    ("timestamp", "epoch_micros"): ["10000-01-01T00:00:00Z", "x"],
    ("timestamp_ntz", "yyyy-MM-dd HH:mm:ss"): ["10000-01-01 00:00:00", "0000-01-01 00:00:00"],
}
WITHIN = {"timestamp": "2024-02-29T12:00:00Z", "timestamp_ntz": "2024-02-29T12:00:00", "date": "2024-02-29"}


def options_of(format: str, **more: Any) -> dict[str, Any]:
    return {
        "formats": {"t": format, "l[]": format, "m[]": format},
        "unknown_fields": "ignore",
        "nanoseconds": "truncate",
        **more,
    }


def documents_of(values: list[Any]) -> list[str]:
    return [json.dumps({"t": value, "l": [None, value, value], "m": {"a": value}, "n": 7}) for value in values]


@pytest.mark.parametrize(("kind", "format"), FAR)
def test_a_time_beyond_the_calendar_is_an_error_or_null(read: Callable[..., Any], kind: str, format: str) -> None:
    columns = {"t": kind, "l": f"array<{kind}>", "m": f"map<string,{kind}>", "n": "int"}
    values = FAR[kind, format]
    assert Status.DECODED not in {status for status, _ in read(columns, *documents_of(values), **options_of(format))}
    found = read(columns, *documents_of(values), **options_of(format, out_of_range_times="set_null"))
    row = {"t": None, "l": [None, None, None], "m": [("a", None)], "n": 7}
    assert dict(zip(values, found, strict=True)) == dict.fromkeys(values, (Status.DECODED, row))


@pytest.mark.parametrize(("kind", "format"), WRONG)
def test_what_else_is_wrong_with_a_time_is_an_error_all_the_same(
    read: Callable[..., Any], kind: str, format: str
) -> None:
    for value in WRONG[kind, format]:
        document = json.dumps({"t": value})
        refused = read({"t": kind}, document, formats={"t": format})
        assert refused == read({"t": kind}, document, formats={"t": format}, out_of_range_times="set_null")
        assert refused == [(Status.WRONG_TYPE, None)], value


@pytest.mark.parametrize("kind", WITHIN)
def test_other_times_are_what_they_were(read: Callable[..., Any], kind: str) -> None:
    """Also those beside far ones, and behind an error in the same batch."""
    far, good, bad = (json.dumps({"t": text}) for text in ("infinity", WITHIN[kind], "x"))
    documents = [good, far, bad, far, good, good, far] * 20
    found = read({"t": kind}, *documents, out_of_range_times="set_null", unknown_fields="ignore")
    ((_, row),) = read({"t": kind}, good, unknown_fields="ignore")
    expected = {good: (Status.DECODED, row), far: (Status.DECODED, {"t": None}), bad: (Status.WRONG_TYPE, None)}
    assert found == [expected[document] for document in documents]


def test_times_without_a_zone_take_the_declared_one(read: Callable[..., Any]) -> None:
    text = '{"t": "10000-03-26T02:30:00"}'  # at which clocks may be set forward in some year
    options = {"out_of_range_times": "set_null", "unknown_fields": "ignore"}
    assert read({"t": "timestamp"}, text, time_zone="Europe/Berlin", **options) == [(Status.DECODED, {"t": None})]
    assert read({"t": "timestamp"}, text, **options) == [(Status.WRONG_TYPE, None)]


def test_an_error_names_the_key(explain: Callable[..., str]) -> None:
    for value, format in (("253402300800000", "epoch_millis"), ('"9999-12-31T23:59:59-01:00"', "iso8601")):
        said = explain({"t": "timestamp"}, f'{{"t": {value}}}', formats={"t": format})
        assert "out_of_range_times: set_null makes it null" in said


EPOCHS = {"epoch_seconds": 1, "epoch_millis": 1000, "epoch_micros": 10**6}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-(2**70), 2**70) | st.integers(-(2**33), 2**38), min_size=1), st.sampled_from(sorted(EPOCHS))
)
def test_any_number_is_a_time_of_the_calendar_or_null(
    read: Callable[..., Any], numbers: list[int], format: str
) -> None:
    documents = [json.dumps({"t": number}) for number in numbers]
    options = {"formats": {"t": format}, "out_of_range_times": "set_null", "unknown_fields": "ignore"}
    epoch = dt.datetime(1970, 1, 1)
    for number, (status, row) in zip(numbers, read({"t": "timestamp_ntz"}, *documents, **options), strict=True):
        try:
            expected = epoch + dt.timedelta(microseconds=number * 10**6 // EPOCHS[format])
        except OverflowError:
            expected = None
        assert (status, row["t"]) == (Status.DECODED, expected)


TEXTS = st.from_regex(r"[+-]?[0-9]{4,6}-[0-1][0-9]-[0-3][0-9]", fullmatch=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS, min_size=1))
def test_any_day_of_the_calendar_of_all_years_is_a_date_or_null(read: Callable[..., Any], texts: list[str]) -> None:
    options = {"out_of_range_times": "set_null", "unknown_fields": "ignore"}
    for text, (status, row) in zip(
        texts, read({"t": "date"}, *(f'{{"t": "{each}"}}' for each in texts), **options), strict=True
    ):
        year, month, day = (int(part) for part in text.rsplit("-", 2))
        in_calendar = 1 <= year <= 9999
        try:
            expected = dt.date(year if in_calendar else 2000 + year % 400, month, day)
        except ValueError:
            expected = None
        if expected is None or (in_calendar and len(text) != 10):
            assert status is Status.WRONG_TYPE
        else:
            assert (status, row["t"]) == (Status.DECODED, expected if in_calendar else None)
