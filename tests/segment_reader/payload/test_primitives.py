"""Payloads of Kafka's own serializers, beside Python's own reading of them."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.primitives import FORMATS, primitive_decoder

PACKED = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
SPECIAL = [b"", b"\0", b"\1", b"\2", b"\xff", "é".encode(), b"\xed\xa0\x80", str(uuid.UUID(int=7)).encode()]
payloads_of = st.lists(
    st.one_of(
        st.none(), st.binary(max_size=10), st.sampled_from(SPECIAL), st.uuids().map(lambda one: str(one).encode())
    )
)


def plain(format_: str, payload: bytes | None) -> tuple[Any, Status]:
    if payload is None:
        return None, Status.NULL
    if format_ == "bytes":
        return payload, Status.DECODED
    if format_ in ("string", "uuid"):
        try:
            text = payload.decode()
            return (str(uuid.UUID(text)) and text if format_ == "uuid" and _dashed(text) else text), Status.DECODED
        except UnicodeDecodeError:
            return None, Status.INVALID_UTF8
        except ValueError:
            return None, Status.MALFORMED
    width = 1 if format_ == "boolean" else struct.calcsize(PACKED[format_])
    if len(payload) != width:
        return None, Status.TRUNCATED if len(payload) < width else Status.TRAILING_BYTES
    if format_ == "boolean":
        return (payload == b"\1", Status.DECODED) if payload[0] < 2 else (None, Status.MALFORMED)
    return struct.unpack(PACKED[format_], payload)[0], Status.DECODED


def _dashed(text: str) -> bool:
    if len(text) != 36 or [text[at] for at in (8, 13, 18, 23)] != ["-"] * 4:
        raise ValueError(text)
    return True


@pytest.mark.parametrize("format_", FORMATS)
@given(payloads_of, st.integers(0, 3), st.sampled_from([0, 5]))
def test_values_and_statuses_are_those_of_a_plain_reading(
    format_: str, payloads: list[bytes | None], start: int, skip: int
) -> None:
    decoder = primitive_decoder(format_)
    framed = [None if payload is None else bytes(skip) + payload for payload in payloads]
    decoded = decoder.decode(pa.array(framed, pa.binary())[start:], skip=skip)
    expected = [plain(format_, payload) for payload in payloads[start:]]
    assert decoded.rows.type == decoder.type
    assert repr(decoded.rows.to_pylist()) == repr([value for value, _ in expected])  # repr: NaN equals NaN
    assert decoded.status.tolist() == [status for _, status in expected]
    decoded.rows.validate(full=True)
    for payload, (_, status) in zip(framed[start:], expected, strict=True):
        if payload is not None and status != Status.DECODED:
            assert decoder.explain(payload, skip=skip).status == status


@pytest.mark.parametrize(
    ("format_", "payload", "said"),
    [
        ("long", b"1234567", "7 bytes where long has 8"),
        ("short", b"123", "3 bytes where short has 2"),
        ("boolean", b"\2", "byte 2 is neither 0 nor 1"),
        ("string", b"ab\xff", "no UTF-8 at byte 2"),
        ("uuid", b"x", "'x' is no UUID"),
    ],
)
def test_an_error_says_what_is_wrong(format_: str, payload: bytes, said: str) -> None:
    assert str(primitive_decoder(format_).explain(payload)) == said


def test_a_payload_that_ends_within_its_frame_is_truncated() -> None:
    for format_ in FORMATS:
        decoder = primitive_decoder(format_)
        assert decoder.decode(pa.array([b"123"], pa.binary()), skip=5).status.tolist() == [Status.TRUNCATED]
        assert decoder.explain(b"123", skip=5).status == Status.TRUNCATED


def test_an_unknown_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'varint' is no format .*: one of bytes, string, short"):
        primitive_decoder("varint")
