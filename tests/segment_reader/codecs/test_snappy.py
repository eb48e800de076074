"""snappy: both framings, and a size that is false."""

from __future__ import annotations

import os

import cramjam
import pytest

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import CodecFault
from kseg.segment_reader.codecs.snappy import SNAPPY
from kseg.segment_reader.errors import Fault

TEXT = b"some text that repeats, " * 9000 + os.urandom(50_000)


def test_snappy_comes_framed_or_raw() -> None:
    assert bytes(registry.decompress(SNAPPY.number, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT
    packed = registry.compress(SNAPPY.number, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_a_false_size_allocates_nothing() -> None:
    with pytest.raises(CodecFault) as caught:
        registry.decompress(SNAPPY.number, b"\xff\xff\xff\xff\x0f" + b"tiny")
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_small_batch_is_decompressed_into_the_buffer() -> None:
    text = os.urandom(3000) * 5
    buffer = memoryview(bytearray(1 << 20))
    found = registry.decompress(SNAPPY.number, registry.compress(SNAPPY.number, text), buffer=buffer)
    assert isinstance(found, memoryview)
    assert found.obj is buffer.obj
    assert found == text
