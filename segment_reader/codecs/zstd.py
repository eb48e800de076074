"""zstd: one or several frames (RFC 8878), with or without content size (Java writes none).

Produce carries it from version 7 on (KIP-110).
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final

import cramjam
import zstandard

from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.errors import Fault

_USUAL_RATIO = 12  # data that expands further rarely fits the buffer, and would be decompressed twice
_MAX_RATIO = 1 << 15  # a block of 4 bytes (header and one repeated byte) can expand to 128 KB
_DEFAULT_LEVEL = 3

_local = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    """This thread's context: making one costs more than decompressing a small batch, sharing one is not safe."""
    decompressor: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return decompressor


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> bytes | memoryview:
    size = zstandard.frame_content_size(data)
    if size > limit:
        raise CodecFault(Fault.TOO_LARGE)
    if len(data) * _USUAL_RATIO <= len(buffer):
        # It does not fit after all, or is damaged: the steps below find out which.
        with contextlib.suppress(cramjam.DecompressionError):
            filled = cramjam.zstd.decompress_into(data, buffer)
            if filled > limit:
                raise CodecFault(Fault.TOO_LARGE)
            return buffer[:filled]
    if size > 0:
        # There are several frames, or it is damaged: the steps below find out which.
        with contextlib.suppress(zstandard.ZstdError):
            return _decompressor().decompress(data, allow_extra_data=False)
    step = max(1024, limit // _MAX_RATIO)  # so that the output of one step is about the limit at most
    parts: list[bytes] = []
    total = position = 0
    frame = None
    while position < len(data):
        frame = frame or _decompressor().decompressobj()
        chunk = data[position : position + step]
        part = frame.decompress(chunk)
        position += len(chunk)
        total += len(part)
        if total > limit:
            raise CodecFault(Fault.TOO_LARGE)
        parts.append(part)
        if frame.eof:
            position -= len(frame.unused_data)
            frame = None
    if frame is not None or not parts:
        raise CodecFault(Fault.DECOMPRESS, "zstd: the frame is cut off")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    compressor = zstandard.ZstdCompressor(level=_DEFAULT_LEVEL if level is None else level, write_content_size=False)
    return compressor.compress(data)


ZSTD: Final = Codec("zstd", 4, _compress, _decompress, levels=(-131_072, 22), min_produce_version=7)
