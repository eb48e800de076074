"""Any bytes either decode or raise the typed error, and both engines say the same about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.batch import MAGIC_AT, FrameFault, frames
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set, encode_wrapper, seal
from kseg.segment_reader.errors import RecordFormatError

CODECS = list(BY_NAME)
LIMITS = Limits(max_rows=5, max_bytes=3000, group_bytes=400, max_batch_bytes=1 << 20)

records = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=8),
        st.none() | st.binary(max_size=40),
        st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=5)), max_size=3),
        st.integers(-1, 2**43),
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def record_sets(draw: st.DrawFn) -> bytes:
    """Frames of every kind, one after the other."""
    parts: list[bytes] = []
    base = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(records)
        codec = draw(st.sampled_from(CODECS))
        kind = draw(st.sampled_from(["batch", "batch", "transaction", "control", "empty", "0", "1", "nested"]))
        if kind in ("batch", "transaction"):
            parts.append(
                encode_batch(
                    rows,
                    base_offset=base,
                    compression=codec,
                    producer_id=draw(st.integers(-1, 2)),
                    transactional=kind == "transaction",
                    timestamp_type=draw(st.integers(0, 1)),
                )
            )
        elif kind == "control":
            parts.append(encode_control_batch(draw(st.integers(0, 3)), base_offset=base, producer_id=1))
            rows = rows[:1]
        elif kind == "empty":
            parts.append(encode_batch([], base_offset=base, last_offset_delta=len(rows) - 1))
        else:
            bare = [row._replace(headers=()) for row in rows]
            magic = 0 if kind == "0" else 1
            stamp = draw(st.integers(0, 1))
            if kind == "nested":
                inner = encode_message_set(bare, magic=1, compression="lz4", timestamp_type=stamp)
                parts.append(
                    encode_wrapper(inner, magic=1, offset=base + len(rows) - 1, compression=codec or "gzip")
                    if codec != "none"
                    else encode_message_set(bare, magic=1, base_offset=base)
                )
            else:
                parts.append(
                    encode_message_set(bare, magic=magic, base_offset=base, compression=codec, timestamp_type=stamp)
                )
        base += len(rows) + draw(st.sampled_from([0, 0, 2]))
    return b"".join(parts)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(record_sets()))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["set", "flip", "delete", "insert"])):
            case "set":
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "delete" if len(data) > 1:
                del data[at : at + draw(st.integers(1, 3))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=3))
        if not data:
            data = bytearray(b"\x00")
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    if draw(st.booleans()):
        data = resealed(data)
    return bytes(data)


def resealed(data: bytearray) -> bytearray:
    """With the checksum of each batch set right, so that damage reaches what the checksum guards."""
    try:
        for frame in frames(bytes(data)):
            if data[frame.position + MAGIC_AT] == 2:
                stop = frame.position + frame.size
                data[frame.position : stop] = seal(data[frame.position : stop])
    except FrameFault:
        pass
    return data


def outcome(decode_with: Callable[..., Any], data: bytes, engine: str, **options: Any) -> tuple[Any, ...]:
    try:
        out = decode_with(data, 1, next_offset(data, 1), engine=engine, limits=LIMITS, **options)
    except RecordFormatError as error:
        return type(error), error.address, error.reason, error.offset
    return out.rows, out.counts, out.gaps, out.sizes


@given(data=damaged(), check=st.booleans(), headers=st.booleans(), committed=st.booleans())
def test_engines_agree_on_damaged_bytes(
    decode_with: Callable[..., Any], data: bytes, check: bool, headers: bool, committed: bool
) -> None:
    options = {
        "check_crcs": check,
        "headers": headers,
        "provenance": check,
        "aborted": [(1, 2)],
        "isolation_level": "read_committed" if committed else "read_uncommitted",
    }
    fast = outcome(decode_with, data, "fast", **options)
    assert fast == outcome(decode_with, data, "reference", **options)


@given(data=st.binary(max_size=200))
def test_engines_agree_on_random_bytes(decode_with: Callable[..., Any], data: bytes) -> None:
    assert outcome(decode_with, data, "fast") == outcome(decode_with, data, "reference")


@pytest.mark.rule(115)
@settings(max_examples=20)
@given(data=record_sets())
def test_every_truncation_gives_a_prefix_of_the_rows(decode_with: Callable[..., Any], data: bytes) -> None:
    whole = decode_with(data, 1, next_offset(data, 1), engine="fast").rows
    for cut in range(0, len(data), 7):
        part = data[:cut]
        rows = decode_with(part, 1, next_offset(part, 1), engine="fast").rows
        assert rows == whole[: len(rows)]


@given(body=st.binary(max_size=60), count=st.integers(0, 5))
def test_engines_agree_on_random_records_in_a_sound_batch(
    decode_with: Callable[..., Any], body: bytes, count: int
) -> None:
    batch = bytearray(encode_batch([], last_offset_delta=9))
    batch += body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    data = seal(batch)
    assert outcome(decode_with, data, "fast") == outcome(decode_with, data, "reference")
