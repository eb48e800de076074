"""gzip: one or several members (RFC 1952).

Where the extra `isal` is installed, Intel's ISA-L decompresses them, much faster than zlib.
"""

from __future__ import annotations

import importlib
import zlib
from types import ModuleType
from typing import Final

from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.errors import Fault


def _inflate() -> ModuleType:
    """The library that decompresses: ISA-L where it is installed, which is the faster one, else zlib."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


inflate = _inflate()

# Bits that no gzip flag has (RFC 1952): zlib rejects them, ISA-L ignores them.
_FLAGS_AT, _RESERVED_FLAGS = 3, 0xE0


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        if data[_FLAGS_AT : _FLAGS_AT + 1] and data[_FLAGS_AT] & _RESERVED_FLAGS:
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


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=31)
    return compressor.compress(data) + compressor.flush()


GZIP: Final = Codec("gzip", 1, _compress, _decompress, levels=(-1, 9))
