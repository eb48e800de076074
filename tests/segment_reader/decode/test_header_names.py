"""Headers whose names are not UTF-8: replaced as Java does, kept as they are, or refused; both decoders alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.header_names import is_utf8, java_text
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.errors import Fault, UnrepresentableRecord

Decode = Callable[..., Any]

LATIN = "café".encode("latin-1")
NAMES = st.one_of(st.binary(max_size=6), st.sampled_from([b"ok", LATIN, "é".encode(), b"\xed\xa0\x80", b"\xe2\x82"]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain", "plain"),
        ("caf\u00e9".encode(), "caf\u00e9"),
        (LATIN, "caf\ufffd"),
        (b"\xe2\x82x", "\ufffdx"),
        (b"\xed\xa0\x80x", "\ufffdx"),  # Java: one replacement for half a surrogate pair
        (b"\xed\xa0", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xf5\x80", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_wrong_bytes_are_replaced(name: bytes, text: str) -> None:
    """`tests/segment_reader/decode/test_java.py` compares many more with Java."""
    assert java_text(name) == text


@given(st.lists(st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=3), min_size=1, max_size=9))
def test_headers_are_replaced_and_kept_by_both_decoders(both: Decode, headers: list[list[tuple[bytes, Any]]]) -> None:
    records = encode_batch([Record(b"k", b"v", pairs) for pairs in headers])
    out = both(records, raw_headers=True, limits=Limits(max_rows=4, max_bytes=200))
    assert [row["headers"] for row in out.rows] == [
        [{"key": java_text(name), "value": value} for name, value in pairs] or None for pairs in headers
    ]
    assert [row["rawHeaders"] for row in out.rows] == [
        None if all(is_utf8(name) for name, _ in pairs) else [{"key": name, "value": value} for name, value in pairs]
        for pairs in headers
    ]


@given(st.lists(st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=3), min_size=1, max_size=40))
def test_refused_records_take_no_neighbour(both: Decode, headers: list[list[tuple[bytes, Any]]]) -> None:
    records = encode_batch([Record(b"k", b"v%d" % n, pairs) for n, pairs in enumerate(headers)], compression="lz4")
    whole = [n for n, pairs in enumerate(headers) if all(is_utf8(name) for name, _ in pairs)]
    out = both(records, header_names="refuse", set_refused_aside=True)
    assert out.offsets == whole
    assert [row["headers"] for row in out.rows] == [
        [{"key": name.decode(), "value": value} for name, value in headers[n]] or None for n in whole
    ]
    assert out.counts.refused == len(headers) - len(whole)


def test_headers_that_are_not_wanted_are_never_refused(both: Decode) -> None:
    records = encode_batch([Record(b"k", b"v", [(LATIN, None), ("x", b"1")])] * 3)
    out = both(records, headers=False, header_names="refuse")
    assert out.values == [b"v"] * 3


def test_raw_headers_do_not_need_the_others(both: Decode) -> None:
    records = encode_batch([Record(b"k", b"v", [(LATIN, None)]), Record(b"k", b"v", [("x", b"1")])])
    out = both(records, headers=False, raw_headers=True)
    assert [row["rawHeaders"] for row in out.rows] == [[{"key": LATIN, "value": None}], None]


def test_a_refused_record_has_its_offset(decode_with: Decode) -> None:
    records = encode_batch([Record(), Record(headers=[(LATIN, b"")]), Record()], base_offset=5)
    for engine in ("fast", "reference"):
        with pytest.raises(UnrepresentableRecord, match="offset 6") as caught:
            decode_with(records, 5, header_names="refuse", engine=engine)
        assert (caught.value.offset, caught.value.reason) == (6, Fault.HEADER_UTF8.reason)
