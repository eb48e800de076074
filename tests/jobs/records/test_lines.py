"""Lines of text and JSON as records."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.jobs.records.lines import BadLine, NewRecord, records_of


def of_json(*objects: Any) -> list[NewRecord]:
    return list(records_of([json.dumps(one).encode() + b"\n" for one in objects], "json"))


def test_a_line_is_a_value_and_an_empty_line_an_empty_value() -> None:
    assert list(records_of([b"one\n", b"\n", b"two\r\n", b"\xff"], "lines")) == [
        NewRecord(None, b"one"),
        NewRecord(None, b""),
        NewRecord(None, b"two"),
        NewRecord(None, b"\xff"),
    ]


def test_a_key_ends_at_the_first_separator() -> None:
    assert list(records_of([b"a::b::c\n", b"::x"], "lines", b"::")) == [NewRecord(b"a", b"b::c"), NewRecord(b"", b"x")]
    with pytest.raises(BadLine, match=r"^line 2: has no separator '::'"):
        list(records_of([b"a::b\n", b"a:b\n"], "lines", b"::"))


def test_an_object_names_all_of_a_record() -> None:
    line = {
        "key": "k",
        "valueBase64": base64.b64encode(b"\x00\xff").decode(),
        "headers": [["a", "1"], ["a", None]],
        "partition": 3,
        "timestamp": "2026-01-01T01:00:00+01:00",
        "topic": "t",
        "offset": 17,
        "keyDecoded": {"a": 1},
        "valueError": {"class": "TRUNCATED"},
        "valueSchema": 7,
    }
    assert of_json(line) == [NewRecord(b"k", b"\x00\xff", (("a", b"1"), ("a", None)), 3, 1767225600000)]
    assert of_json({"value": None, "headers": {"a": {"b": 1}}, "timestamp": 5}) == [
        NewRecord(None, None, (("a", b'{"b": 1}'),), None, 5)
    ]


def test_headers_may_be_base64() -> None:
    given = {"value": None, "headersBase64": [["a", "/w=="], ["a", None]], "headers": None}
    assert of_json(given, {"value": None, "headersBase64": {"b": ""}}) == [
        NewRecord(None, None, (("a", b"\xff"), ("a", None))),
        NewRecord(None, None, (("b", b""),)),
    ]


def test_no_digit_of_a_number_in_a_value_is_lost() -> None:
    line = b'  {"value": {"a": 1.10, "b":12345678901234567890.12345678901234567890}, "key": 1.0}\n'
    (record,) = records_of([line], "json")
    assert record.value == b'{"a": 1.10, "b":12345678901234567890.12345678901234567890}'
    assert record.key == b"1.0"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON: the payload ends within an object"),
        ("[1]", "is no object"),
        ('{"key": "a", "vlaue": "b"}', "unknown member 'vlaue'; did you mean value?"),
        ('{"value": "a", "order": 1}', "unknown member 'order'; known are key, value"),
        ('{"id": 1}', "unknown member 'id'"),
        ('{"key": "a"}', 'neither value nor valueBase64; a tombstone is "value": null'),
        ("{}", "neither value nor valueBase64"),
        ('{"key": 1, "key": 2}', "'key' twice"),
        ('{"value": null, "key": "a", "keyBase64": "YQ=="}', "both key and keyBase64"),
        ('{"value": null, "keyBase64": "%"}', "keyBase64 is not base64"),
        ('{"value": null, "keyBase64": 5}', "keyBase64 is not base64"),
        ('{"value": null, "headers": ["a"]}', "headers is neither"),
        ('{"value": null, "headers": 1}', "headers is neither"),
        ('{"value": null, "headersBase64": ["a"]}', "headersBase64 is neither"),
        ('{"value": null, "headersBase64": {"a": "%"}}', "headersBase64 is not base64"),
        ('{"value": null, "headersBase64": {"a": 1}}', "headersBase64 is not base64"),
        ('{"value": null, "headersBase64": [], "headers": []}', "both headers and headersBase64"),
        ('{"value": null, "partition": -1}', "partition is no number"),
        ('{"value": null, "partition": 2147483648}', "partition is no number"),
        ('{"value": null, "timestamp": "2026-01-01T00:00:00"}', "timestamp is neither"),
        ('{"value": null, "timestamp": 1.5}', "timestamp is neither"),
        ('{"value": null, "timestamp": -1}', "timestamp is neither"),
        ('{"value": null, "timestamp": "1969-12-31T23:59:59Z"}', "timestamp is before 1970"),
        ('{"value": null, "timestamp": 9223372036854775808}', "timestamp is neither"),
    ],
)
def test_what_is_no_record_names_its_line(line: str, reason: str) -> None:
    with pytest.raises(BadLine) as raised:
        list(records_of([b'{"value": "x"}\n', b"\n", line.encode()], "json"))
    assert str(raised.value).startswith("line 3: ")
    assert reason in str(raised.value)


_texts = st.none() | st.text(st.characters(codec="utf-8"))


@given(_texts, _texts, st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), _texts), max_size=3))
def test_texts_arrive_as_they_are(key: str | None, value: str | None, headers: list[tuple[str, str | None]]) -> None:
    (record,) = of_json({"key": key, "value": value, "headers": headers})
    encoded = [None if text is None else text.encode() for text in (key, value)]
    assert [record.key, record.value] == encoded
    assert record.headers == tuple((name, None if text is None else text.encode()) for name, text in headers)
