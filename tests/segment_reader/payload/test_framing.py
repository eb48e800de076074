"""Frames of registries' serializers, beside a plain reading of the same bytes."""

from __future__ import annotations

import struct
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.framing import VALUE_HEADER, SchemaKey, frames_in_headers, frames_of, looks_framed

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def plain(payload: bytes | None) -> tuple[SchemaKey | None, int, Status]:
    if payload is None:
        return None, 0, Status.NULL
    if len(payload) >= 5 and payload[0] == 0:
        return struct.unpack(">i", payload[1:5])[0], 5, Status.DECODED
    if len(payload) >= 17 and payload[0] == 1:
        return str(uuid.UUID(bytes=payload[1:17])), 17, Status.DECODED
    return None, 0, Status.BAD_FRAME


framed = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(lambda number, rest: struct.pack(">bi", 0, number) + rest, st.integers(-3, 3), st.binary(max_size=3)),
    st.builds(
        lambda number, rest: b"\1" + bytes(15) + bytes([number]) + rest, st.integers(0, 3), st.binary(max_size=3)
    ),
)


def found(payloads: pa.BinaryArray, headers: pa.ListArray | None = None) -> list[tuple[SchemaKey | None, int, Status]]:
    frames = frames_of(payloads) if headers is None else frames_in_headers(headers, payloads, VALUE_HEADER)
    assert len(set(frames.schemas)) == len(frames.schemas)
    return [
        (None if which < 0 else frames.schemas[which], int(skip), Status(status))
        for which, skip, status in zip(frames.which, frames.skip, frames.status, strict=True)
    ]


@given(st.lists(framed, max_size=30), st.integers(0, 5), st.sampled_from([pa.binary(), pa.large_binary()]))
def test_every_frame_is_read_as_the_plain_reading_does(
    payloads: list[bytes | None], start: int, kind: pa.DataType
) -> None:
    array = pa.array(payloads, kind)[start:]  # a slice: offsets do not begin at 0
    assert found(array) == [plain(payload) for payload in payloads[start:]]


Records = list[tuple[bytes | None, list[tuple[str, bytes | None]]]]
headers_of_one = st.lists(st.tuples(st.sampled_from([VALUE_HEADER, "x"]), framed))


@given(st.lists(st.tuples(framed, headers_of_one), max_size=12), st.integers(0, 3))
def test_the_last_header_goes_before_the_frame(records: Records, start: int) -> None:
    expected = []
    for payload, headers in records[start:]:
        named = [value for key, value in headers if key == VALUE_HEADER]
        if not named or named[-1] is None or payload is None:
            expected.append(plain(payload))
            continue
        schema, _, status = plain(named[-1])
        expected.append((schema, 0, Status.DECODED if status == Status.DECODED else Status.BAD_FRAME))
    rows = [[{"key": key, "value": value} for key, value in headers] for _, headers in records]
    payloads = pa.array([payload for payload, _ in records], pa.binary())
    got = found(payloads[start:], pa.array(rows, HEADERS)[start:])
    # Where a record has no payload, its place does not matter.
    assert [one if one[2] != Status.NULL else (None, 0, Status.NULL) for one in got] == expected


def test_schemas_are_named_once_and_rows_lead_to_them() -> None:
    payloads = [struct.pack(">bi", 0, number) for number in (9, 3, 9, 9)]
    frames = frames_of(pa.array(payloads, pa.binary()))
    assert frames.schemas == (3, 9)
    assert frames.which.tolist() == [1, 0, 1, 1]
    assert frames.which.dtype == np.int32


def test_a_header_without_a_value_names_no_schema() -> None:
    """The frame before the payload does, also if an earlier header has a value: the last one counts."""
    framed, other = struct.pack(">bi", 0, 7), struct.pack(">bi", 0, 9)
    headers = [[(VALUE_HEADER, None)], [(VALUE_HEADER, other), (VALUE_HEADER, None)], [(VALUE_HEADER, other)]]
    rows = [[{"key": key, "value": value} for key, value in of_one] for of_one in headers]
    payloads = pa.array([framed, framed, b"x"], pa.binary())
    frames = frames_in_headers(pa.array(rows, HEADERS), payloads, VALUE_HEADER)
    assert [frames.schemas[which] for which in frames.which] == [7, 7, 9]
    assert (frames.skip.tolist(), frames.status.tolist()) == ([5, 5, 0], [Status.DECODED] * 3)
    assert frames.in_headers is not None
    assert frames.in_headers.rows.tolist() == [2]
    assert found(payloads[:2], pa.array(rows[:2], HEADERS)) == found(payloads[:2])


def test_records_without_headers_are_read_by_their_frames() -> None:
    payloads = pa.array([struct.pack(">bi", 0, 5), None], pa.binary())
    assert found(payloads, pa.array([None, []], HEADERS)) == found(payloads)


@pytest.mark.parametrize(
    ("payload", "framed"),
    [
        (b"\0\0\0\0\1", True),  # an id and an empty payload
        (b"\0\0\xff\xff\xff{}", True),
        (b"\0\1\0\0\0{}", False),  # the id is not plausible
        (b"\0\0\0\0\0{}", False),  # registries count from 1
        (b"\0\0\0\1", False),
        (b"\1" + bytes(range(16)), True),
        (b"\1" + bytes(15), False),
        (b"", False),
        (b"{}", False),
    ],
)
def test_payloads_of_unknown_format_are_recognised_by_a_plausible_schema(payload: bytes, framed: bool) -> None:
    assert looks_framed(payload) is framed
