"""lz4: one frame, as the LZ4 frame format has it, with Kafka's old header checksum in magic 0.

    uint32 magic | flags | block descriptor | (uint64 content size) | (uint32 dictionary) | header checksum
    (uint32 size, block) ...     the size's highest bit: the block is not compressed
    uint32 0                     the end

Kafka before 0.10 computed the header checksum over the wrong bytes (magic number included), and its successors still do
so for magic 0 (KAFKA-3160): there the checksum is corrected before the frame is read.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam
import lz4.frame

from kseg.segment_reader.codecs.codec import Codec, CodecFault, uninitialized
from kseg.segment_reader.errors import Fault

_BLOCK_SIZE = struct.Struct("<I")
_MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE = 0x08
_DICT_ID = 0x01
_MAX_RATIO = 256  # a block cannot expand to more than 255 times its size


def xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0 of less than 16 bytes: a descriptor has at most 14."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF

    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    h, at = (p5 + len(data)) & mask, 0
    while at + 4 <= len(data):
        h = rotate((h + int.from_bytes(data[at : at + 4], "little") * p3) & mask, 17) * p4 & mask
        at += 4
    for byte in data[at:]:
        h = rotate((h + byte * p5) & mask, 11) * p1 & mask
    h = (h ^ h >> 15) * p2 & mask
    h = (h ^ h >> 13) * p3 & mask
    return h ^ h >> 16


#: The frame headers that most producers write (independent blocks, no checksums, no content size) with their header
#: checksum, and the largest size of a decompressed block.
_PLAIN_HEADERS: Final = {
    _MAGIC + bytes([0x60, code << 4, xxh32(bytes([0x60, code << 4])) >> 8 & 0xFF]): 1 << (8 + 2 * code)
    for code in (4, 5, 6, 7)
}
_PLAIN_HEADER_SIZE: Final = 7


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> bytes | memoryview:
    if magic == 0:
        data = with_header_checksum(data, bytes(data[4 : _descriptor_end(data)]))
    block_size = _PLAIN_HEADERS.get(bytes(data[:_PLAIN_HEADER_SIZE]))
    if block_size is not None:
        blocks = _decompress_blocks(data, block_size, limit, buffer)
        if blocks is not None:
            return blocks
    sized = len(data) > 4 and data[4] & _CONTENT_SIZE
    if not sized and len(data) * _MAX_RATIO <= limit:
        out = lz4.frame.decompress(data)  # half the cost of the object, and cannot exceed the limit
    else:
        if sized and len(data) >= 14 and int.from_bytes(data[6:14], "little") > limit:
            raise CodecFault(Fault.TOO_LARGE)
        frame = lz4.frame.LZ4FrameDecompressor()
        out = frame.decompress(data, max_length=limit + 1)
        if len(out) <= limit and not frame.eof:
            raise CodecFault(Fault.DECOMPRESS, "lz4: the frame is cut off")
    if len(out) > limit:
        raise CodecFault(Fault.TOO_LARGE)
    return bytes(out)


def _decompress_blocks(data: bytes | memoryview, block_size: int, limit: int, buffer: memoryview) -> memoryview | None:
    """A frame with a plain header, block by block: the library estimates the size of the whole, and reallocates.

    None where the frame does not end as it should: the library finds out why.
    """
    out, filled, position, end = buffer, 0, _PLAIN_HEADER_SIZE, len(data)
    while end - position >= 4:
        size = _BLOCK_SIZE.unpack_from(data, position)[0]
        position += 4
        if size == 0:
            return out[:filled] if position == end else None
        stop = position + (size & 0x7FFFFFFF)
        if stop > end:
            return None
        if block_size > len(out) - filled:
            out = _enlarged(out[:filled], filled + block_size * (2 + (end - position) // max(1, stop - position)))
        if stop - position == size:
            filled += cramjam.lz4.decompress_block_into(data[position:stop], out[filled : filled + block_size])
        elif stop - position <= block_size:
            out[filled : filled + stop - position] = data[position:stop]
            filled += stop - position
        else:
            return None
        if filled > limit:
            raise CodecFault(Fault.TOO_LARGE)
        position = stop
    return None


def _enlarged(filled: memoryview, size: int) -> memoryview:
    """The same bytes at the beginning of a larger buffer."""
    larger = uninitialized(size)
    larger[: len(filled)] = filled
    return larger


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    frame = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == 0:  # KAFKA-3160: the checksum of magic number and descriptor, where the format has the descriptor alone
        return with_header_checksum(frame, frame[: _descriptor_end(frame)])
    return bytes(frame)


def _descriptor_end(frame: bytes | memoryview) -> int:
    """The position of the header checksum in a frame: after flags, block descriptor and optional fields."""
    if len(frame) < 7 or bytes(frame[:4]) != _MAGIC:
        raise CodecFault(Fault.DECOMPRESS, "lz4: no frame header")
    flags = frame[4]
    end = 6 + (8 if flags & _CONTENT_SIZE else 0) + (4 if flags & _DICT_ID else 0)
    if len(frame) <= end:
        raise CodecFault(Fault.DECOMPRESS, "lz4: no frame header")
    return end


def with_header_checksum(frame: bytes | memoryview, covered: bytes) -> bytes:
    """The frame with the header checksum of these bytes."""
    end = _descriptor_end(frame)
    return b"".join((frame[:end], bytes([xxh32(covered) >> 8 & 0xFF]), frame[end + 1 :]))


LZ4: Final = Codec("lz4", 3, _compress, _decompress, levels=(1, 17))
