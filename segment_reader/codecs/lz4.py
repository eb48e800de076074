"""lz4: one frame, as the LZ4 frame format has it, with Kafka's old header checksum in magic 0.

    uint32 magic | flags | block descriptor | (uint64 content size) | (uint32 dictionary) | header checksum
    (uint32 size, block, (uint32 checksum)) ...     the size's highest bit: the block is not compressed
    uint32 0 | (uint32 content checksum)            the end

The sizes of the blocks say how much a frame can become at most, which is nearly what it does become: all blocks but the
last are usually full. So the result gets a buffer of that size, whatever the first block's ratio was.

Kafka before 0.10 computed the header checksum over the wrong bytes (magic number included), and its successors still do
so for magic 0 (KAFKA-3160): there the checksum is corrected before the frame is read.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import cramjam
import lz4.frame

from kseg.segment_reader.codecs.codec import Codec, CodecFault, uninitialized
from kseg.segment_reader.errors import Fault

_BLOCK_SIZE = struct.Struct("<I")
MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE = 0x08
_BLOCK_CHECKSUM = 0x10
_DICT_ID = 0x01
PLAIN_FLAGS = 0x60  # version 1, independent blocks, nothing optional
SIZE_BITS = 0x7FFFFFFF  # of a block's size; the highest bit: the block is stored as it is
MAX_RATIO = 256  # a block cannot expand to more than 255 times its size
_WHOLE = 1 << 20  # a frame that cannot become more than this is given to the library as a whole, which is faster


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
#: checksum, for each size of blocks.
PLAIN_HEADERS: Final = frozenset(
    MAGIC + bytes([PLAIN_FLAGS, code << 4, xxh32(bytes([PLAIN_FLAGS, code << 4])) >> 8 & 0xFF]) for code in (4, 5, 6, 7)
)
PLAIN_HEADER_SIZE: Final = 7


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> bytes | memoryview:
    if magic == 0:
        data = with_header_checksum(data, bytes(data[4 : _descriptor_end(data)]))
    position = _descriptor_end(data) + 1
    flags, block_size = data[4], 1 << (8 + 2 * (data[5] >> 4 & 7))
    sized = bool(flags & _CONTENT_SIZE)
    size = int.from_bytes(data[6:14], "little") if sized else 0
    if size > limit:
        raise CodecFault(Fault.TOO_LARGE)
    checksum = 4 if flags & _BLOCK_CHECKSUM else 0
    most = 0
    for block, stored in _blocks(data, position, block_size, checksum):
        most += len(block) if stored else min(block_size, len(block) * MAX_RATIO)
    if size > most:
        raise CodecFault(Fault.DECOMPRESS, "lz4: the content size is wrong")
    # No block is decompressed once the limit is passed, so that one block beyond it is the most that comes.
    most = min(most, limit + block_size)
    if bytes(data[:PLAIN_HEADER_SIZE]) in PLAIN_HEADERS:
        out = _decompress_plain(data, block_size, limit, buffer if most <= len(buffer) else uninitialized(most))
    elif most <= min(limit, _WHOLE):
        return bytes(lz4.frame.decompress(data))
    else:
        out = _decompress_any(data, position, block_size, checksum, limit, uninitialized(most))
    if len(out) > limit:
        raise CodecFault(Fault.TOO_LARGE)
    return out


def _blocks(
    data: bytes | memoryview, position: int, block_size: int, checksum: int
) -> Iterator[tuple[memoryview, bool]]:
    """Each block of a frame, and whether it is stored as it is; `checksum` bytes follow each.

    Raises CodecFault where the frame does not end as it should.
    """
    view, end = memoryview(data), len(data)
    while end - position >= 4:
        word = _BLOCK_SIZE.unpack_from(data, position)[0]
        if word == 0:
            return
        size = word & SIZE_BITS
        if size > block_size:
            raise CodecFault(Fault.DECOMPRESS, "lz4: a block is larger than the frame's blocks")
        start, position = position + 4, position + 4 + size + checksum
        if position > end:
            break
        yield view[start : start + size], word > SIZE_BITS
    raise CodecFault(Fault.DECOMPRESS, "lz4: the frame is cut off")


def _decompress_plain(data: bytes | memoryview, block_size: int, limit: int, out: memoryview) -> memoryview:
    """A frame with a plain header, block by block: several times as fast as the library's frames."""
    filled = 0
    for block, stored in _blocks(data, PLAIN_HEADER_SIZE, block_size, 0):
        if stored:
            out[filled : filled + len(block)] = block
            filled += len(block)
        else:
            filled += cramjam.lz4.decompress_block_into(block, out[filled : filled + block_size])
        if filled > limit:
            break
    return out[:filled]


def _decompress_any(
    data: bytes | memoryview, position: int, block_size: int, checksum: int, limit: int, out: memoryview
) -> memoryview:
    """Any frame, by the library: one block is given to it at a time, so that no more than that is there twice."""
    frame = lz4.frame.LZ4FrameDecompressor()
    frame.decompress(data[:position])
    filled = 0
    for block, _ in _blocks(data, position, block_size, checksum):
        stop = position + 4 + len(block) + checksum
        part = frame.decompress(data[position:stop])
        out[filled : filled + len(part)] = part
        filled, position = filled + len(part), stop
        if filled > limit:
            return out[:filled]
    frame.decompress(data[position:])
    if not frame.eof:
        raise CodecFault(Fault.DECOMPRESS, "lz4: the frame is cut off")
    return out[:filled]


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
    if len(frame) < 7 or bytes(frame[:4]) != MAGIC:
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
