"""gzip: one or several members (RFC 1952).

If the extra `isal` is installed, Intel's ISA-L decompresses them, which is much faster than zlib.
"""

from __future__ import annotations

import importlib
import zlib
from types import ModuleType
from typing import Final

from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.errors import Fault


def _inflate() -> ModuleType:
    """The library that decompresses: ISA-L if it is installed, because it is faster; otherwise zlib."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib


inflate = _inflate()

# Bits that no gzip flag has (RFC 1952): zlib rejects them, ISA-L ignores them.
_FLAGS_AT, _RESERVED_FLAGS = 3, 0xE0

_STEP = 4 << 20  # compressed bytes of the first step, decompressed bytes of any
_LATER_STEP, _STEP_OF_A_MEMBER = 64 << 10, 256  # compressed bytes of other steps, and of a further member's first one


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> memoryview:
    """Decompresses in steps if the data does not fit one step.

    A decompressor returns the unused part of a step's input as a copy. So steps are small, and begin small for each
    further member; otherwise, time would grow with the square of the size.
    """
    out = bytearray()  # grows without copying its content: the system moves its pages
    position, step = 0, _STEP
    while True:
        _check_flags(data, position)
        member = inflate.decompressobj(wbits=31)
        while not member.eof:
            if position == len(data):
                raise CodecFault(Fault.DECOMPRESS, "gzip: the stream is cut off")
            rest: bytes | memoryview = data[position : position + step]
            position, step = position + len(rest), _LATER_STEP
            full = True
            while full and not member.eof:
                part = member.decompress(rest, _STEP)
                out += part
                if len(out) > limit:
                    raise CodecFault(Fault.TOO_LARGE)
                rest, full = member.unconsumed_tail, len(part) == _STEP
        position, step = position - len(member.unused_data), _STEP_OF_A_MEMBER
        if position == len(data):
            return memoryview(out)


def _check_flags(data: bytes | memoryview, start: int) -> None:
    flags = data[start + _FLAGS_AT : start + _FLAGS_AT + 1]
    if flags and flags[0] & _RESERVED_FLAGS:
        raise CodecFault(Fault.DECOMPRESS, "gzip: reserved flags are set")


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=31)
    return compressor.compress(data) + compressor.flush()


GZIP: Final = Codec("gzip", 1, _compress, _decompress, levels=(-1, 9))
