"""Records as lines of text and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

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
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
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


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20), st.binary(max_size=5))
def test_a_line_is_printable_and_an_object_can_be_produced_again(
    key: bytes | None, value: bytes | None, header: bytes
) -> None:
    one = row(key, value, [("h\x1b", header)])
    assert as_line(one, whole=True).isprintable()
    line = to_json(as_object(one))
    assert json.loads(line)["offset"] == 5
    (again,) = records_of([line.encode()], "json")
    assert (again.key, again.value, again.partition, again.timestamp) == (key, value, 0, 1767225600000)
