"""Dates and timestamps: each format, zones, and what is no date."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.formats import local_offsets
from kseg.segment_reader.payload.json.shape import JsonOptions, shape_of

WRONG_TYPE, OUT_OF_RANGE, INEXACT = Status.WRONG_TYPE, Status.OUT_OF_RANGE, Status.INEXACT
EPOCH = dt.datetime(1970, 1, 1)


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)


Expected = dt.date | Status

#: type, options, and what each text becomes.
TABLES: list[tuple[str, dict[str, Any], dict[str, Expected]]] = [
    (
        "date",
        {},
        {
            '"2024-02-29"': dt.date(2024, 2, 29),
            '"0001-01-01"': dt.date(1, 1, 1),
            '"9999-12-31"': dt.date(9999, 12, 31),
            '"1970-01-01"': dt.date(1970, 1, 1),
            '"1900-03-01"': dt.date(1900, 3, 1),
            '"2024\\u002d02-29"': dt.date(2024, 2, 29),
            '"2023-02-29"': WRONG_TYPE,
            '"1900-02-29"': WRONG_TYPE,
            '"0000-01-01"': WRONG_TYPE,
            '"2024-00-01"': WRONG_TYPE,
            '"2024-13-01"': WRONG_TYPE,
            '"2024-04-31"': WRONG_TYPE,
            '"2024-04-00"': WRONG_TYPE,
            '"2024-4-30"': WRONG_TYPE,
            '"2024-04-30 "': WRONG_TYPE,
            '"2024-04-30T00:00"': WRONG_TYPE,
            '"2024/04/30"': WRONG_TYPE,
            '"٢٠٢٤-04-30"': WRONG_TYPE,
            '"+2024-04-30"': WRONG_TYPE,
            '""': WRONG_TYPE,
            "19000": WRONG_TYPE,
        },
    ),
    (
        "date",
        {"date_format": "epoch_days"},
        {
            "0": dt.date(1970, 1, 1),
            "-719162": dt.date(1, 1, 1),
            "2932896": dt.date(9999, 12, 31),
            "1.9e4": dt.date(2022, 1, 8),
            "-719163": OUT_OF_RANGE,
            "2932897": OUT_OF_RANGE,
            "1e30": OUT_OF_RANGE,
            "0.5": INEXACT,
            '"0"': WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"nanoseconds": "truncate"},
        {
            '"2024-02-29T12:30:15.1234567Z"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29T12:30:15.123456789+01:00"': at(2024, 2, 29, 11, 30, 15, 123_456),
            '"2024-02-29T12:30:15.123456\\u0037Z"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29 12:30:15.9999999Z"': at(2024, 2, 29, 12, 30, 15, 999_999),
            '"1969-12-31T23:59:59.9999999Z"': at(1969, 12, 31, 23, 59, 59, 999_999),
            '"9999-12-31T23:59:59.999999999Z"': at(9999, 12, 31, 23, 59, 59, 999_999),
            '"2024-02-29T12:30:15.' + "123456789" * 9 + 'Z"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29T12:30:15.25Z"': at(2024, 2, 29, 12, 30, 15, 250_000),
            '"2024-02-29T12:30:15.1234567"': WRONG_TYPE,
            '"2024-02-29T12:30:15.12345x7Z"': WRONG_TYPE,
            '"0001-01-01T00:00:00.0000001+00:01"': OUT_OF_RANGE,
        },
    ),
    (
        "timestamp_ntz",
        {"nanoseconds": "truncate"},
        {
            '"2024-02-29T12:30:15.1234567"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29T12:30:15.1234567Z"': WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"nanoseconds": "truncate", "formats": {"x": "yyyy/MM/dd HH:mm:ss.SSSSSSSSS XXX"}},
        {'"2024/02/29 12:30:15.123456789 +01:00"': at(2024, 2, 29, 11, 30, 15, 123_456)},
    ),
    (
        "timestamp",
        {"nanoseconds": "truncate", "timestamp_format": "epoch_seconds"},
        {
            "1709206200.123456789": at(2024, 2, 29, 11, 30, 0, 123_456),
            "1709206200.123456": at(2024, 2, 29, 11, 30, 0, 123_456),
            "1709206200": at(2024, 2, 29, 11, 30),
            "-0.0000001": at(1969, 12, 31, 23, 59, 59, 999_999),
            "0.0000001": at(1970, 1, 1),
            "-1.0000001": at(1969, 12, 31, 23, 59, 58, 999_999),
            "1e-9": at(1970, 1, 1),
            "-1e-999999999999999999999": at(1969, 12, 31, 23, 59, 59, 999_999),
            "12345678901234567890.5": OUT_OF_RANGE,
            "253402300799.9999999": at(9999, 12, 31, 23, 59, 59, 999_999),
            "253402300800.0000001": OUT_OF_RANGE,
        },
    ),
    (
        "timestamp",
        {"nanoseconds": "truncate", "timestamp_format": "epoch_micros"},
        {"1709206200000000.9": at(2024, 2, 29, 11, 30), "-0.5": at(1969, 12, 31, 23, 59, 59, 999_999)},
    ),
    (
        "date",
        {"nanoseconds": "truncate", "date_format": "epoch_days"},
        {"0.5": INEXACT, "1": dt.date(1970, 1, 2)},
    ),
    (
        "date",
        {"formats": {"x": "d.M.yyyy"}},
        {'"1.2.2024"': dt.date(2024, 2, 1), '"31.12.1999"': dt.date(1999, 12, 31), '"2024-02-01"': WRONG_TYPE},
    ),
    (
        "timestamp",
        {},
        {
            '"2024-02-29T12:30:15Z"': at(2024, 2, 29, 12, 30, 15),
            '"2024-02-29 12:30:15.1Z"': at(2024, 2, 29, 12, 30, 15, 100_000),
            '"2024-02-29T12:30:15.123456Z"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29T12:30:15.123456000Z"': at(2024, 2, 29, 12, 30, 15, 123_456),
            '"2024-02-29T12:30Z"': at(2024, 2, 29, 12, 30),
            '"2024-02-29T12:30:15+01:00"': at(2024, 2, 29, 11, 30, 15),
            '"2024-02-29T12:30:15-0130"': at(2024, 2, 29, 14, 0, 15),
            '"2024-02-29T12:30:15+18:00"': at(2024, 2, 28, 18, 30, 15),
            '"2024-02-29T12:30-05"': at(2024, 2, 29, 17, 30),
            '"2024-02-29T12:30:15-00:00"': at(2024, 2, 29, 12, 30, 15),
            '"2024-02-29T12:30:15\\u002b01:00"': at(2024, 2, 29, 11, 30, 15),
            '"0001-01-01T00:00:00Z"': at(1, 1, 1),
            '"9999-12-31T23:59:59.999999Z"': at(9999, 12, 31, 23, 59, 59, 999_999),
            '"1969-12-31T23:59:59.999999Z"': at(1969, 12, 31, 23, 59, 59, 999_999),
            '"2024-02-29T12:30:15"': WRONG_TYPE,
            '"2024-02-29T12:30:15.1234567Z"': INEXACT,
            '"0001-01-01T00:00:00+00:01"': OUT_OF_RANGE,
            '"9999-12-31T23:59:59-00:01"': OUT_OF_RANGE,
            '"2024-02-29T24:00:00Z"': WRONG_TYPE,
            '"2024-02-29T23:60:00Z"': WRONG_TYPE,
            '"2024-02-29T23:59:60Z"': WRONG_TYPE,
            '"2024-02-30T00:00:00Z"': WRONG_TYPE,
            '"2024-02-29T00:00:00+18:01"': WRONG_TYPE,
            '"2024-02-29T00:00:00+01:60"': WRONG_TYPE,
            '"2024-02-29T00:00:00+1"': WRONG_TYPE,
            '"2024-02-29T00:00:00 Z"': WRONG_TYPE,
            '"2024-02-29T00:00:00z"': WRONG_TYPE,
            '"2024-02-29T00:00:00.Z"': WRONG_TYPE,
            '"2024-02-29T00:00:Z"': WRONG_TYPE,
            '"2024-02-29T00Z"': WRONG_TYPE,
            '"2024-02-29t00:00:00Z"': WRONG_TYPE,
            '"2024-02-29"': WRONG_TYPE,
            '"2024-02-29T00:00:00ZZ"': WRONG_TYPE,
            '""': WRONG_TYPE,
            "1709206200": WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"time_zone": "+02:00"},
        {'"2024-02-29T12:30:15"': at(2024, 2, 29, 10, 30, 15), '"2024-02-29T12:30:15Z"': at(2024, 2, 29, 12, 30, 15)},
    ),
    ("timestamp", {"time_zone": "UTC"}, {'"2024-02-29 12:30"': at(2024, 2, 29, 12, 30)}),
    (
        "timestamp",
        {"time_zone": "Europe/Berlin"},
        {
            '"2024-01-01T12:00:00"': at(2024, 1, 1, 11),
            '"2024-07-01T12:00:00.5"': at(2024, 7, 1, 10, 0, 0, 500_000),
            '"2024-10-27T02:30:00"': at(2024, 10, 27, 0, 30),  # twice: the earlier one
            '"2024-10-27T02:30:00+01:00"': at(2024, 10, 27, 1, 30),
            '"2024-03-31T02:30:00"': WRONG_TYPE,  # never
            '"2024-03-31T03:00:00"': at(2024, 3, 31, 1),
        },
    ),
    (
        "timestamp_ntz",
        {"time_zone": "Europe/Berlin"},
        {
            '"2024-03-31T02:30:00"': at(2024, 3, 31, 2, 30),
            '"2024-03-31 02:30:00.123456"': at(2024, 3, 31, 2, 30, 0, 123_456),
            '"2024-03-31T02:30:00Z"': WRONG_TYPE,
            '"2024-03-31T02:30:00+01:00"': WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"timestamp_format": "epoch_millis"},
        {
            "0": EPOCH,
            "1709206200123": at(2024, 2, 29, 11, 30, 0, 123_000),
            "-1": at(1969, 12, 31, 23, 59, 59, 999_000),
            "0.001": at(1970, 1, 1, 0, 0, 0, 1),
            "1.709206200123e12": at(2024, 2, 29, 11, 30, 0, 123_000),
            "253402300799999.999": at(9999, 12, 31, 23, 59, 59, 999_999),
            "253402300800000": OUT_OF_RANGE,
            "-62135596800001": OUT_OF_RANGE,
            "1709206200123456": OUT_OF_RANGE,
            "99999999999999999999": OUT_OF_RANGE,
            "0.0001": INEXACT,
            '"0"': WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"formats": {"x": "epoch_seconds"}},
        {"1709206200": at(2024, 2, 29, 11, 30), "1709206200.000001": at(2024, 2, 29, 11, 30, 0, 1), "1e-7": INEXACT},
    ),
    ("timestamp_ntz", {"timestamp_format": "epoch_micros"}, {"1": at(1970, 1, 1, 0, 0, 0, 1), "0.5": INEXACT}),
    (
        "timestamp",
        {"timestamp_format": "dd/MM/yyyy 'at' HH:mm:ss.SSS XXX"},
        {
            '"29/02/2024 at 12:30:15.250 Z"': at(2024, 2, 29, 12, 30, 15, 250_000),
            '"29/02/2024 at 12:30:15.250 +02:00"': at(2024, 2, 29, 10, 30, 15, 250_000),
            '"29/02/2024 at 12:30:15.25 Z"': WRONG_TYPE,
            '"30/02/2024 at 12:30:15.250 Z"': WRONG_TYPE,
            '"2024-02-29T12:30:15Z"': WRONG_TYPE,
        },
    ),
    (
        "timestamp",
        {"timestamp_format": "yyyyMMddHHmmss", "time_zone": "-05:00"},
        {'"20240229123015"': at(2024, 2, 29, 17, 30, 15), '"2024022912301"': WRONG_TYPE},
    ),
]


@pytest.mark.parametrize(("kind", "options", "texts"), TABLES, ids=[f"{kind} {options}" for kind, options, _ in TABLES])
def test_a_format_reads_what_it_says(
    kind: str, options: dict[str, Any], texts: dict[str, Expected], read: Callable[..., Any]
) -> None:
    documents = [f'{{"x":{text}}}' for text in texts]
    rows = read({"x": kind}, *documents, unknown_fields="ignore", **options)
    for (text, expected), (status, row) in zip(texts.items(), rows, strict=True):
        if isinstance(expected, Status):
            assert status == expected, text
        else:
            found = row["x"].replace(tzinfo=None) if isinstance(expected, dt.datetime) else row["x"]
            assert (found, getattr(row["x"], "tzinfo", None) is not None) == (expected, kind == "timestamp"), text


def test_formats_by_path(read: Callable[..., Any]) -> None:
    columns = {"l": "array<struct<t:timestamp,u:timestamp>>", "m": "map<string,date>"}
    formats = {"l[].t": "epoch_seconds", "m[]": "epoch_days"}
    ((status, row),) = read(
        columns, '{"l":[{"t":1,"u":"1970-01-01T00:00:02Z"}],"m":{"a":3}}', formats=formats, unknown_fields="ignore"
    )
    assert status == Status.DECODED
    assert [each.second for each in row["l"][0].values()] == [1, 2]
    assert row["m"] == [("a", dt.date(1970, 1, 4))]


def test_any_instant_is_read_as_it_is_written(read: Callable[..., Any], scale: Callable[..., int]) -> None:
    random = np.random.default_rng(3)
    instants, texts = [], []
    for seconds in random.integers(-62135596800, 253402300800, scale(500, 20_000)).tolist():
        instant = EPOCH + dt.timedelta(seconds=seconds, microseconds=int(random.integers(0, 10**6)))
        instants.append(instant)
        texts.append(instant.isoformat(sep="T" if seconds % 2 else " "))
    columns = {"t": "timestamp", "n": "timestamp_ntz", "d": "date"}
    documents = [f'{{"t":"{text}Z","n":"{text}","d":"{text[:10]}"}}' for text in texts]
    for instant, (_, row) in zip(instants, read(columns, *documents, unknown_fields="ignore"), strict=True):
        assert row == {"t": instant.replace(tzinfo=dt.UTC), "n": instant, "d": instant.date()}


ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Pacific/Apia",
]


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_of_a_zone_with_clock_changes(
    zone: str, read: Callable[..., Any], scale: Callable[..., int]
) -> None:
    """Around each change of the clocks, and anywhere."""
    random = np.random.default_rng(5)
    found = ZoneInfo(zone)
    changes = [since for since, _ in local_offsets(found)]
    seconds = [change + delta for change in changes[:: scale(8, 1)] for delta in (-7200, -3600, -1, 0, 1, 1800, 3600)]
    seconds += random.integers(-62135500000, 253402200000, scale(200, 5000)).tolist()
    seconds += random.integers(0, 4102444800, scale(200, 5000)).tolist()
    locals_ = [EPOCH + dt.timedelta(seconds=each) for each in seconds]
    documents = [f'{{"t":"{each.isoformat()}"}}' for each in locals_]
    for local, (status, row) in zip(locals_, read({"t": "timestamp"}, *documents, time_zone=zone), strict=True):
        instant = local.replace(tzinfo=found).astimezone(dt.UTC)
        if instant.astimezone(found).replace(tzinfo=None) == local:
            assert row["t"] == instant
        else:
            assert status == WRONG_TYPE


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyy-MM-dd HH:mm:ss.SSSSSSX",
        "d.M.yyyy H:m:s XXX",
        "MM/dd/yyyy'T'HH''mm ss.SSSSSSSSS XX",
        "SSSSSSXXXyyyyMMddHHmmss",
        "yyyy'年'MM'月'dd'日' HH:mm:ss.SSSSSS X",
    ],
)
def test_any_instant_is_read_by_a_pattern(pattern: str, read: Callable[..., Any], scale: Callable[..., int]) -> None:
    random = np.random.default_rng(6)
    fraction = pattern.count("S")
    texts, instants = [], []
    for second in random.integers(-62135500000, 253402200000, scale(100, 5000)).tolist():
        instant = EPOCH + dt.timedelta(seconds=second, microseconds=int(random.integers(10**6)) if fraction else 0)
        offset = int(random.integers(-17, 18))
        local = instant + dt.timedelta(hours=offset)
        zone = "Z" if offset == 0 else f"{offset:+03d}" + {1: "", 2: "00", 3: ":00"}[pattern.count("X")]
        text = re.sub("X+", zone, pattern.replace("''", "\0").replace("'T'", "\1").replace("'", "").replace("\0", "'"))
        text = re.sub("S+", f"{local.microsecond:06d}".ljust(fraction, "0"), text)
        for letters, number in (("y", local.year), ("M", local.month), ("d", local.day)):
            text = re.sub(f"{letters}+", lambda match, n=number: f"{n:0{len(match[0])}d}", text)
        for letters, number in (("H", local.hour), ("m", local.minute), ("s", local.second)):
            text = re.sub(f"{letters}+", lambda match, n=number: f"{n:0{len(match[0])}d}", text)
        texts.append(text.replace("\1", "T"))
        instants.append(instant.replace(tzinfo=dt.UTC))
    rows = read(
        {"t": "timestamp"}, *(json.dumps({"t": text}, ensure_ascii=False) for text in texts), timestamp_format=pattern
    )
    assert [(text, row and row["t"]) for text, (_, row) in zip(texts, rows, strict=True)] == list(
        zip(texts, instants, strict=True)
    )


BAD_FORMATS = {
    ("timestamp", "yyyy-MM-dd HH:mm:ss.SSSSSS ZZ"): "ZZ is not known; known are yyyy M MM",
    ("timestamp", "MMM d yyyy"): "MMM is not known",
    ("timestamp", "yyyy-MM-dd'T"): "a quote without its end",
    ("timestamp", "HH:mm"): "lacks the day, month, year",
    ("timestamp", "yyyy-MM-dd MM"): "has the month twice",
    ("timestamp", "epoch_days"): "epoch_days is a format of dates",
    ("date", "epoch_millis"): "epoch_millis is a format of timestamps",
    ("date", "yyyy-MM-dd HH"): "of a date has the hour",
}


@pytest.mark.parametrize(("kind", "name"), BAD_FORMATS)
def test_a_bad_format_is_refused(kind: str, name: str) -> None:
    with pytest.raises(InvalidSchema, match=BAD_FORMATS[kind, name]) as raised:
        shape_of(parse_columns({"at": kind}), JsonOptions(formats={"at": name}))
    assert raised.value.place == "at"


@pytest.mark.parametrize("name", ["Mars/Olympus", "+25:00", "+1:00", "", "../etc/passwd", "Europe"])
def test_a_bad_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchema, match="write UTC, an offset such as"):
        shape_of(parse_columns({"at": "timestamp"}), JsonOptions(time_zone=name))


def test_errors_say_what_is_wrong_with_a_text(explain: Callable[..., str]) -> None:
    def error(text: str, kind: str = "timestamp", **options: Any) -> str:
        return explain({"t": kind}, f'{{"t":"{text}"}}', **options)

    zoneless = "2024-03-31T02:30:00"
    assert "has no time zone, and none is declared" in error(zoneless)
    assert f"clocks of Europe/Berlin never show '{zoneless}'" in error(zoneless, time_zone="Europe/Berlin")
    assert "has a time zone: declare timestamp, not timestamp_ntz" in error(f"{zoneless}Z", "timestamp_ntz")
    assert "is no timestamp of format epoch_millis" in error(zoneless, timestamp_format="epoch_millis")
    assert "'31.3.24' is no date of format iso8601" in error("31.3.24", "date")
    assert "digits below a microsecond" in error("2024-03-31T02:30:00.0000001Z")
    assert "not within the years 1 to 9999" in error("9999-12-31T23:59:59-01:00")
