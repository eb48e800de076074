"""zstd: one or several frames (RFC 8878), with or without content size (Java writes none).

    magic 28 B5 2F FD | frame header | (uint24 last, type, size | block) ... | (uint32 checksum)
    magic 5x 2A 4D 18 | uint32 size | bytes that are skipped

Produce carries it from version 7 on (KIP-110).
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam
import zstandard

from kseg.segment_reader.codecs.codec import Codec, CodecFault, uninitialized
from kseg.segment_reader.errors import Fault

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
_UINT32 = struct.Struct("<I")
_RLE, _COMPRESSED = 1, 2  # types of blocks; 0: stored as it is
_MAX_BLOCK = 128 * 1024  # decompressed
_MAX_HEADER = 18
_NOT_KNOWN = (1 << 64) - 1  # a content size
_NO_MEMORY = "not enough memory"
_CUT_OFF = "zstd: the frame is cut off"
_STEP = 1 << 20
_USUAL_WINDOW = 1 << 27  # larger ones are refused when streaming, unless they are allowed
_LARGEST_WINDOW = 1 << 31  # of the format's reference implementation: decompressing at once, it refuses larger ones
_DEFAULT_LEVEL = 3


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> memoryview:
    most, window = _most(data, limit)
    if most > limit or window > _USUAL_WINDOW:
        return _decompress_within(data, min(most, limit))
    out = buffer if most <= len(buffer) > 0 else uninitialized(max(1, most))  # the library refuses an empty one
    return out[: cramjam.zstd.decompress_into(data, out)]


def _decompress_within(data: bytes | memoryview, limit: int) -> memoryview:
    """The same where the result may be larger than the limit, where it is cut off, and for windows of any size."""
    out = uninitialized(limit + 1)
    filled = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as frames:
            while filled <= limit:
                count = frames.readinto(out[filled : filled + _STEP])
                if not count:
                    return out[:filled]
                filled += count
    except zstandard.ZstdError as error:
        if _NO_MEMORY in str(error):  # for the window: the library has one type for all errors
            raise MemoryError(str(error)) from None
        raise
    raise CodecFault(Fault.TOO_LARGE)


def _most(data: bytes | memoryview, limit: int) -> tuple[int, int]:
    """The size of all frames decompressed at most, and their largest window, from the headers of frames and blocks.

    The size is nearly what they become: all blocks of a frame but the last are usually full.
    Raises CodecFault: a frame is cut off, is none, or says itself that it is larger than the limit.
    """
    most = window = position = 0
    end = len(data)
    while position < end or not end:
        if bytes(data[position + 1 : position + 4]) == _SKIPPABLE_MAGIC and data[position] >> 4 == 5:
            position += 8 + (_UINT32.unpack_from(data, position + 4)[0] if end - position >= 8 else end)
            if position > end:
                raise CodecFault(Fault.DECOMPRESS, _CUT_OFF)
            continue
        if bytes(data[position : position + 4]) != _MAGIC:
            raise CodecFault(Fault.DECOMPRESS, _CUT_OFF if end - position < 4 else "zstd: no frame header")
        header = data[position : position + _MAX_HEADER]
        frame = zstandard.get_frame_parameters(header)
        window = max(window, frame.window_size)
        known = frame.content_size < _NOT_KNOWN
        if known and frame.content_size > limit:
            raise CodecFault(Fault.TOO_LARGE)
        size, position = _blocks_of_frame(data, position + zstandard.frame_header_size(header))
        most += min(size, frame.content_size) if known else size
        position += 4 if frame.has_checksum else 0
        if position > end:
            raise CodecFault(Fault.DECOMPRESS, _CUT_OFF)
    return most, window


def _blocks_of_frame(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The largest size of the blocks from `position` on, decompressed, and the position of their end."""
    most, last, end = 0, 0, len(data)
    while not last:
        if end - position < 3:
            raise CodecFault(Fault.DECOMPRESS, _CUT_OFF)
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _RLE else size)
        if position > end:
            raise CodecFault(Fault.DECOMPRESS, _CUT_OFF)
        most += _MAX_BLOCK if kind == _COMPRESSED else min(size, _MAX_BLOCK)
    return most, position


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    compressor = zstandard.ZstdCompressor(level=_DEFAULT_LEVEL if level is None else level, write_content_size=False)
    return compressor.compress(data)


ZSTD: Final = Codec("zstd", 4, _compress, _decompress, levels=(-131_072, 22), min_produce_version=7)
