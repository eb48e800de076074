"""zstd: several frames, with and without content size, and a size that is false."""

from __future__ import annotations

import os

import pytest
import zstandard

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import CodecFault
from kseg.segment_reader.codecs.zstd import ZSTD
from kseg.segment_reader.errors import Fault


@pytest.mark.rule(114)
def test_several_frames_are_joined() -> None:
    sized = zstandard.compress(b"one")
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"two")
    for frames in (sized + unsized, unsized + sized, sized + sized, unsized + unsized):
        assert len(registry.decompress(ZSTD.number, frames)) == 6


def test_a_false_size_allocates_nothing() -> None:
    huge = (1 << 40).to_bytes(8, "little")
    with pytest.raises(CodecFault) as caught:
        registry.decompress(ZSTD.number, b"\x28\xb5\x2f\xfd\xe0" + huge + b"\x01\x00\x00")
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_small_batch_is_decompressed_into_the_buffer() -> None:
    text = os.urandom(3000) * 5
    buffer = memoryview(bytearray(1 << 20))
    found = registry.decompress(ZSTD.number, registry.compress(ZSTD.number, text), buffer=buffer)
    assert isinstance(found, memoryview)
    assert found.obj is buffer.obj
    assert found == text
