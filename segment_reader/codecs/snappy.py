"""snappy: the framing of snappy-java, or one raw block.

    82 S N A P P Y 00          magic
    int32 int32                version, lowest compatible version
    (uint32 size, block) ...   raw snappy blocks, 32 KB of data each

Java and librdkafka write the framing; other clients write one raw block.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from kseg.segment_reader.codecs.codec import Codec, CodecFault, uninitialized
from kseg.segment_reader.errors import Fault

_BLOCK_SIZE = struct.Struct(">I")
_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32 * 1024


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> memoryview:
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        blocks, size = [(0, len(data))], cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise CodecFault(Fault.TOO_LARGE)
    else:
        blocks, size = _blocks(data, limit)
    out = buffer if 0 < size <= len(buffer) else uninitialized(size)
    filled = 0
    for start, stop in blocks:
        filled += cramjam.snappy.decompress_raw_into(data[start:stop], out[filled:size])
    return out[:filled]


def _blocks(data: bytes | memoryview, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Start and end of each block in framed data, and the size of all of them decompressed."""
    blocks: list[tuple[int, int]] = []
    position, size = len(_HEADER), 0
    while position < len(data):
        if position + 4 > len(data):
            raise CodecFault(Fault.DECOMPRESS, "snappy: a block is cut off")
        start = position + 4
        position = start + _BLOCK_SIZE.unpack_from(data, position)[0]
        if position > len(data):
            raise CodecFault(Fault.DECOMPRESS, "snappy: a block is cut off")
        size += cramjam.snappy.decompress_raw_len(data[start:position])
        if size > limit:
            raise CodecFault(Fault.TOO_LARGE)
        blocks.append((start, position))
    return blocks, size


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


SNAPPY: Final = Codec("snappy", 2, _compress, _decompress)
