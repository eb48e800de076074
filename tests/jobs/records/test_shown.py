"""Records as lines of text and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.jobs.records.lines import records_of
from kseg.jobs.records.shown import as_line, as_object, to_json


def row(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]] | None = None
) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": 0,
        "offset": 5,
        "timestamp": 1767225600000,
        "key": key,
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in headers or []],
    }


def test_a_line_has_address_time_headers_key_and_value() -> None:
    line = as_line(row(b"k", b'{"a": 1}', [("h", b"x")]), whole=False)
    assert line.split() == ["t-0", "5", "2026-01-01T00:00:00.000Z", "{h=x}", "k", '{"a":', "1}"]


def test_a_frame_is_shown_by_its_schema() -> None:
    framed = b"\0\0\0\0\x07abcd"
    assert "<schema 7> abcd" in as_line(row(None, framed), whole=False)
    assert as_object(row(None, framed))["valueSchema"] == 7


def test_long_values_are_cut_unless_they_are_wanted() -> None:
    long = row(None, b"x" * 5000)
    assert as_line(long, whole=False).endswith("x… (5,000 bytes)")
    assert as_line(long, whole=True).endswith("x" * 5000)


def test_headers_that_are_no_text_are_base64_in_their_order() -> None:
    assert as_object(row(None, b"", [("a", b"\xc3\xa9"), ("n", None)]))["headers"] == [["a", "\u00e9"], ["n", None]]
    shown = as_object(row(None, b"", [("a", b"\xff"), ("b", b"x"), ("n", None), ("a", b"")]))
    assert shown["headersBase64"] == [["a", "/w=="], ["b", "eA=="], ["n", None], ["a", ""]]
    assert "headers" not in shown


@pytest.mark.parametrize(
    ("millis", "text", "member"),
    [
        (253402300799999, "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        (253402300800000, "253402300800000 ms", 253402300800000),
        (2**62, f"{2**62} ms", 2**62),
        (None, "-", None),
    ],
)
def test_a_time_that_no_calendar_has_is_a_number(millis: int | None, text: str, member: str | int | None) -> None:
    late = row(None, b"v") | {"timestamp": millis}
    assert as_line(late, whole=True).split("  ")[-3] == text
    shown = as_object(late)
    assert shown["timestamp"] == member
    (again,) = records_of([to_json(shown).encode()], "json")
    assert again.timestamp == millis


_headers = st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.none() | st.binary(max_size=5)), max_size=4)


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20), _headers)
def test_a_line_is_printable_and_an_object_can_be_produced_again(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    one = row(key, value, [("h\x1b", b"x"), *headers])
    assert as_line(one, whole=True).isprintable()
    line = to_json(as_object(one))
    assert json.loads(line)["offset"] == 5
    (again,) = records_of([line.encode()], "json")
    assert (again.key, again.value, again.partition, again.timestamp) == (key, value, 0, 1767225600000)
    assert again.headers == (("h\x1b", b"x"), *headers)
