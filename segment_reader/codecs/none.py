"""No compression: the records as they are."""

from __future__ import annotations

from typing import Final

from kseg.segment_reader.codecs.codec import Codec


def _compress(data: bytes, magic: int, level: int | None) -> bytes:
    return data


def _decompress(data: bytes | memoryview, magic: int, limit: int, buffer: memoryview) -> bytes | memoryview:
    return data


NONE: Final = Codec("none", 0, _compress, _decompress)
