"""snappy: the framing of snappy-java, or one raw block.

    82 S N A P P Y 00          magic
    int32 int32                version, lowest compatible version
    (uint32 size, block) ...   raw snappy blocks, 32 KB of data each

Java and librdkafka write the framing; other clients write one raw block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import cramjam

from kseg.segment_reader.codecs.codec import Codec, CodecFault, uninitialized
from kseg.segment_reader.errors import Fault

_BLOCK_SIZE = struct.Struct(">I")
_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32 * 1024


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> memoryview:
    size = 0
    for block in _blocks(data):
        size += cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise CodecFault(Fault.TOO_LARGE)
    out = buffer if 0 < size <= len(buffer) else uninitialized(size)
    filled = 0
    for block in _blocks(data):
        filled += cramjam.snappy.decompress_raw_into(block, out[filled:size])
    return out[:filled]


def _blocks(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Each raw block, one where there is no framing. Raises CodecFault where one is cut off."""
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        yield data
        return
    position, end, view = len(_HEADER), len(data), memoryview(data)
    while position < end:
        start = position + 4
        position = start + (_BLOCK_SIZE.unpack_from(data, position)[0] if start <= end else 0)
        if position > end:
            raise CodecFault(Fault.DECOMPRESS, "snappy: a block is cut off")
        yield view[start:position]


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


SNAPPY: Final = Codec("snappy", 2, _compress, _decompress)
