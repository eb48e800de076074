"""Compressed data as other writers may frame it: flushed anywhere, in blocks of any size, in several frames.

Both decoders give what Arrow's own codecs (C++) give for the same bytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.codecs import snappy
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, LENGTH_AT, RECORDS_AT
from kseg.segment_reader.encode.batches import Record, encode_batch, seal


def _lz4(draw: st.DrawFn, parts: list[bytes]) -> bytes:
    with lz4.frame.LZ4FrameCompressor(
        block_size=draw(st.sampled_from([0, 4, 5, 6, 7])),
        block_linked=draw(st.booleans()),
        block_checksum=draw(st.booleans()),
        content_checksum=draw(st.booleans()),
        auto_flush=True,
    ) as frame:
        size = sum(map(len, parts)) if draw(st.booleans()) else 0
        return b"".join((frame.begin(size), *(frame.compress(part) for part in parts), frame.flush()))


def _gzip(draw: st.DrawFn, parts: list[bytes]) -> bytes:
    packed, member = b"", zlib.compressobj(wbits=31)
    for part in parts:
        packed += member.compress(part) + member.flush(draw(st.sampled_from([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])))
        if draw(st.booleans()):
            packed, member = packed + member.flush(), zlib.compressobj(wbits=31)
    return packed + member.flush()


def _zstd(draw: st.DrawFn, parts: list[bytes]) -> bytes:
    packed = b""
    compressor = zstandard.ZstdCompressor(level=draw(st.sampled_from([-5, 1, 19])), write_checksum=draw(st.booleans()))
    frame = compressor.compressobj()
    for part in parts:
        packed += frame.compress(part) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        if draw(st.booleans()):
            packed, frame = packed + frame.flush(), compressor.compressobj()
    return packed + frame.flush()


def _snappy(draw: st.DrawFn, parts: list[bytes]) -> bytes:
    blocks = [pa.compress(part, "snappy", asbytes=True) for part in parts]
    return snappy._HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


FRAMINGS = {"gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}


def _unpacked_by_arrow(codec: str, packed: bytes, parts: list[bytes]) -> bytes:
    if codec != "snappy":
        return pa.CompressedInputStream(pa.py_buffer(packed), codec).read()
    position, out = len(snappy._HEADER), b""
    for part in parts:
        (size,) = struct.unpack_from(">i", packed, position)
        out += pa.decompress(packed[position + 4 : position + 4 + size], len(part), "snappy", asbytes=True)
        position += 4 + size
    return out


def _with_body(plain: bytes, packed: bytes, codec: str) -> bytes:
    batch = bytearray(plain[:RECORDS_AT] + packed)
    batch[ATTRIBUTES_AT + 1] |= BY_NAME[codec].number
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - LENGTH_AT - 4)
    return seal(batch)


@pytest.mark.parametrize("codec", FRAMINGS)
@given(st.data())
def test_any_framing_is_read_as_arrows_codecs_read_it(
    both: Callable[..., Any], codec: str, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
    factor = data.draw(st.sampled_from([1, 50, 3000]))
    plain = encode_batch([Record(None, value * factor, timestamp=1) for value in values])
    body = plain[RECORDS_AT:]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    parts = [body[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(body)], strict=True) if stop > start]
    packed = FRAMINGS[codec](data.draw, parts)
    assert _unpacked_by_arrow(codec, packed, parts) == body
    assert both(_with_body(plain, packed, codec)).values == [value * factor for value in values]


def test_a_small_first_block_of_lz4_does_not_count_for_the_others(both: Callable[..., Any]) -> None:
    rows = [Record(None, os.urandom(100_000), timestamp=1) for _ in range(9)]
    plain = encode_batch(rows)
    body = plain[RECORDS_AT:]
    with lz4.frame.LZ4FrameCompressor(block_size=7, block_linked=False, auto_flush=True) as frame:
        packed = frame.begin() + frame.compress(body[:20]) + frame.compress(body[20:]) + frame.flush()
    assert both(_with_body(plain, packed, "lz4")).values == [row.value for row in rows]
