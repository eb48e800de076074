"""The codecs of record batches, with a cap on what a batch may unpack to.

Numbers are those of the attributes' low bits: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

- gzip: one or several members; where the extra `isal` is installed, Intel's ISA-L unpacks them, much faster than zlib.
- snappy: the framing of snappy-java (magic `82 S N A P P Y 00`, two version words, then blocks with a 32-bit length
  each), which Java and librdkafka write, or one raw block, which others do.
- lz4: one frame. Kafka before 0.10 computed the frame's header checksum over the wrong bytes, and its successors go on
  doing so for magic 0 (KAFKA-3160): there the checksum is set right before the frame is read.
- zstd: one or several frames, with or without content size (Java writes none).
"""

from __future__ import annotations

import contextlib
import importlib
import struct
import threading
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Final

import cramjam
import lz4.frame
import numpy as np
import zstandard

from kseg.segment_reader.errors import Fault


def _inflate() -> ModuleType:
    """Whatever unpacks gzip: ISA-L where it is installed, which is the faster one, else zlib."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


inflate = _inflate()

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

DEFAULT_LIMIT = 1 << 30
NO_ROOM: Final = memoryview(b"")

_UINT32 = struct.Struct("<I")
_BLOCK_SIZE = struct.Struct(">I")

# Bits that no gzip flag has (RFC 1952): zlib refuses them, ISA-L does not look.
_GZIP_FLAGS, _GZIP_RESERVED = 3, 0xE0

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE = 0x08
_LZ4_DICT_ID = 0x01
_LZ4_MAX_RATIO = 256  # a block cannot unpack to more than 255 times its size
_ZSTD_USUAL_RATIO = 12  # what unpacks to more rarely fits, and would be unpacked twice
_ZSTD_MAX_RATIO = 1 << 15  # a block of 4 bytes (header and one repeated byte) can unpack to 128 KB


class CodecFault(Exception):
    """Internal: what went wrong while unpacking. Callers know the batch's address and raise the typed error."""

    def __init__(self, fault: Fault, detail: str = "") -> None:
        super().__init__(fault, detail)
        self.fault, self.detail = fault, detail


def decompress(
    codec: int,
    data: bytes | memoryview,
    *,
    magic: int = 2,
    limit: int = DEFAULT_LIMIT,
    room: memoryview = NO_ROOM,
) -> bytes | memoryview:
    """Unpacks the records of one batch.

    room: writable bytes, into which is unpacked what fits and whose codec can do so; what is returned is then a view of
    them (`.obj` tells).

    Raises CodecFault: CODEC, DECOMPRESS, or TOO_LARGE above `limit` bytes.
    """
    if codec == NONE:
        return data
    unpack = _DECOMPRESS.get(codec)
    if unpack is None:
        raise CodecFault(Fault.CODEC)
    try:
        return unpack(data, magic, limit, room)
    except CodecFault:
        raise
    except MemoryError:
        raise CodecFault(Fault.TOO_LARGE, "out of memory") from None
    except Exception as error:  # each library has its own exception types, some of them bare RuntimeErrors
        raise CodecFault(Fault.DECOMPRESS, f"{_NAMES[codec]}: {error}") from None


def compress(codec: int, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Packs the records of one batch as the Java client does: xerial snappy, 64 KB lz4 blocks, zstd without size.

    `level` is the library's own, None its default (zstd: 3); snappy has none.
    """
    if codec == NONE:
        return data
    return _COMPRESS[codec](data, magic, level)


# -- gzip


def _gunzip(data: bytes | memoryview, magic: int, limit: int, room: memoryview) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        if data[_GZIP_FLAGS : _GZIP_FLAGS + 1] and data[_GZIP_FLAGS] & _GZIP_RESERVED:
            raise CodecFault(Fault.DECOMPRESS, "gzip: reserved flags are set")
        member = inflate.decompressobj(wbits=31)
        part = member.decompress(data, limit - size + 1)
        size += len(part)
        if size > limit:
            raise CodecFault(Fault.TOO_LARGE)
        if not member.eof:
            raise CodecFault(Fault.DECOMPRESS, "gzip: the stream is cut off")
        parts.append(part)
        data = member.unused_data
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _gzip(data: bytes, magic: int, level: int | None) -> bytes:
    packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=31)
    return packer.compress(data) + packer.flush()


# -- snappy


def _unsnap(data: bytes | memoryview, magic: int, limit: int, room: memoryview) -> memoryview:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        blocks, size = [(0, len(data))], cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise CodecFault(Fault.TOO_LARGE)
    else:
        blocks, size = _xerial_blocks(data, limit)
    out = room if 0 < size <= len(room) else _bytes(size)
    filled = 0
    for start, stop in blocks:
        filled += cramjam.snappy.decompress_raw_into(data[start:stop], out[filled:size])
    return out[:filled]


def _xerial_blocks(data: bytes | memoryview, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Where each block stands, and what all unpack to."""
    blocks: list[tuple[int, int]] = []
    position, size = len(_XERIAL_HEADER), 0
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


def _snap(data: bytes, magic: int, level: int | None) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


# -- lz4


def _unlz4(data: bytes | memoryview, magic: int, limit: int, room: memoryview) -> bytes | memoryview:
    if magic == 0:
        data = _with_header_checksum(data, _lz4_descriptor(data))
    block_size = _LZ4_PLAIN.get(bytes(data[:_LZ4_PLAIN_HEADER]))
    if block_size is not None:
        unpacked = _unlz4_blocks(data, block_size, limit, room)
        if unpacked is not None:
            return unpacked
    sized = len(data) > 4 and data[4] & _LZ4_CONTENT_SIZE
    if not sized and len(data) * _LZ4_MAX_RATIO <= limit:
        out = lz4.frame.decompress(data)  # half the cost of the object, and no bomb fits
    else:
        if sized and len(data) >= 14 and int.from_bytes(data[6:14], "little") > limit:
            raise CodecFault(Fault.TOO_LARGE)
        unpacker = lz4.frame.LZ4FrameDecompressor()
        out = unpacker.decompress(data, max_length=limit + 1)
        if len(out) <= limit and not unpacker.eof:
            raise CodecFault(Fault.DECOMPRESS, "lz4: the frame is cut off")
    if len(out) > limit:
        raise CodecFault(Fault.TOO_LARGE)
    return bytes(out)


def _unlz4_blocks(data: bytes | memoryview, block_size: int, limit: int, room: memoryview) -> memoryview | None:
    """A plain frame, block by block: the library's own way guesses at the size of the whole, and guesses again.

    None where the frame does not end as it should: the library tells what is wrong.
    """
    out, filled, position, end = room, 0, _LZ4_PLAIN_HEADER, len(data)
    while end - position >= 4:
        size = _UINT32.unpack_from(data, position)[0]
        position += 4
        if size == 0:
            return out[:filled] if position == end else None
        stop = position + (size & 0x7FFFFFFF)
        if stop > end:
            return None
        if block_size > len(out) - filled:
            out = _moved(out[:filled], filled + block_size * (2 + (end - position) // max(1, stop - position)))
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


def _moved(filled: memoryview, size: int) -> memoryview:
    """The same in a larger buffer."""
    larger = _bytes(size)
    larger[: len(filled)] = filled
    return larger


def _lz4(data: bytes, magic: int, level: int | None) -> bytes:
    frame = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == 0:  # KAFKA-3160: the checksum of magic number and descriptor, where the format says descriptor alone
        return _with_header_checksum(frame, frame[: _descriptor_end(frame)])
    return bytes(frame)


def _descriptor_end(frame: bytes | memoryview) -> int:
    """Where the header checksum byte of an lz4 frame stands: after flags, block descriptor and optional fields."""
    if len(frame) < 7 or bytes(frame[:4]) != _LZ4_MAGIC:
        raise CodecFault(Fault.DECOMPRESS, "lz4: no frame header")
    flags = frame[4]
    end = 6 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICT_ID else 0)
    if len(frame) <= end:
        raise CodecFault(Fault.DECOMPRESS, "lz4: no frame header")
    return end


def _lz4_descriptor(frame: bytes | memoryview) -> bytes:
    return bytes(frame[4 : _descriptor_end(frame)])


def _with_header_checksum(frame: bytes | memoryview, covered: bytes) -> bytes:
    end = _descriptor_end(frame)
    return b"".join((frame[:end], bytes([_xxh32(covered) >> 8 & 0xFF]), frame[end + 1 :]))


def _xxh32(data: bytes) -> int:
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


#: The frame headers that most producers write (blocks that stand alone, no checksums, no size of the whole), with their
#: own checksum, and how large a block may be.
_LZ4_PLAIN: Final = {
    _LZ4_MAGIC + bytes([0x60, code << 4, _xxh32(bytes([0x60, code << 4])) >> 8 & 0xFF]): 1 << (8 + 2 * code)
    for code in (4, 5, 6, 7)
}
_LZ4_PLAIN_HEADER: Final = 7


# -- zstd


_local = threading.local()


def _unpacker() -> zstandard.ZstdDecompressor:
    """This thread's context: making one costs more than unpacking a small batch, sharing one is not safe."""
    unpacker: zstandard.ZstdDecompressor | None = getattr(_local, "zstd", None)
    if unpacker is None:
        unpacker = _local.zstd = zstandard.ZstdDecompressor()
    return unpacker


def _unzstd(data: bytes | memoryview, magic: int, limit: int, room: memoryview) -> bytes | memoryview:
    size = zstandard.frame_content_size(data)
    if size > limit:
        raise CodecFault(Fault.TOO_LARGE)
    if len(data) * _ZSTD_USUAL_RATIO <= len(room):
        with contextlib.suppress(cramjam.DecompressionError):  # no room after all, or damage: the steps below tell
            filled = cramjam.zstd.decompress_into(data, room)
            if filled > limit:
                raise CodecFault(Fault.TOO_LARGE)
            return room[:filled]
    if size > 0:
        with contextlib.suppress(zstandard.ZstdError):  # several frames, or damage: the steps below tell
            return _unpacker().decompress(data, allow_extra_data=False)
    step = max(1024, limit // _ZSTD_MAX_RATIO)  # what one step unpacks to stays near the limit, whatever it holds
    parts: list[bytes] = []
    total = position = 0
    unpacker = None
    while position < len(data):
        unpacker = unpacker or _unpacker().decompressobj()
        chunk = data[position : position + step]
        part = unpacker.decompress(chunk)
        position += len(chunk)
        total += len(part)
        if total > limit:
            raise CodecFault(Fault.TOO_LARGE)
        parts.append(part)
        if unpacker.eof:
            position -= len(unpacker.unused_data)
            unpacker = None
    if unpacker is not None or not parts:
        raise CodecFault(Fault.DECOMPRESS, "zstd: the frame is cut off")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd(data: bytes, magic: int, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=3 if level is None else level, write_content_size=False).compress(data)


def _bytes(size: int) -> memoryview:
    """A buffer that is not zeroed first."""
    return memoryview(np.empty(size, np.uint8).data)


_DECOMPRESS: dict[int, Callable[[bytes | memoryview, int, int, memoryview], bytes | memoryview]] = {
    GZIP: _gunzip,
    SNAPPY: _unsnap,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
_COMPRESS: dict[int, Callable[[bytes, int, int | None], bytes]] = {GZIP: _gzip, SNAPPY: _snap, LZ4: _lz4, ZSTD: _zstd}
_NAMES = {number: name for name, number in CODECS.items()}
