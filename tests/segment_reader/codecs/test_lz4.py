"""lz4: the header checksums of both kinds, and two ways of decompressing that agree."""

from __future__ import annotations

import os
from collections.abc import Callable

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.codecs import lz4 as codec
from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.codecs.lz4 import LZ4, with_header_checksum, xxh32
from kseg.segment_reader.errors import Fault

TEXT = b"some text that repeats, " * 9000 + os.urandom(50_000)


def test_old_header_checksum_of_lz4_is_written_for_magic_0_and_not_minded() -> None:
    old, right = registry.compress(LZ4.number, TEXT, magic=0), registry.compress(LZ4.number, TEXT)
    assert [i for i, (a, b) in enumerate(zip(old, right, strict=True)) if a != b] == [6]
    assert bytes(registry.decompress(LZ4.number, right, magic=0)) == TEXT
    with pytest.raises(CodecFault):
        registry.decompress(LZ4.number, old, magic=1)


@pytest.mark.parametrize("size", [True, False])
def test_lz4_checksum_is_set_right_whatever_the_descriptor_holds(size: bool) -> None:
    for linked in (True, False):
        frame = bytearray(lz4.frame.compress(TEXT, store_size=size, block_linked=linked, content_checksum=True))
        end = 14 if size else 6
        frame[end] ^= 0x55
        assert bytes(registry.decompress(LZ4.number, bytes(frame), magic=0)) == TEXT


def test_known_values_of_the_hash() -> None:
    assert xxh32(b"") == 0x02CC5D05
    assert xxh32(b"abc") == 0x32D153FF


def test_a_false_size_allocates_nothing() -> None:
    frame = bytearray(lz4.frame.compress(b"tiny", store_size=True))
    frame[6:14] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(CodecFault) as caught:
        registry.decompress(LZ4.number, with_header_checksum(frame, bytes(frame[4:14])))
    assert caught.value.fault is Fault.TOO_LARGE


@given(st.data())
def test_lz4_by_blocks_answers_as_the_library_does(
    damaged: Callable[[Codec], st.SearchStrategy[bytes]],
    outcome: Callable[..., bytes | Fault],
    data: st.DataObject,
) -> None:
    packed = data.draw(damaged(LZ4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "PLAIN_HEADERS", {})
        whole = outcome(LZ4, packed)
    assert outcome(LZ4, packed) == whole


def test_a_small_batch_is_decompressed_into_the_buffer() -> None:
    text = os.urandom(3000) * 5
    buffer = memoryview(bytearray(1 << 20))
    found = registry.decompress(LZ4.number, registry.compress(LZ4.number, text), buffer=buffer)
    assert isinstance(found, memoryview)
    assert found.obj is buffer.obj
    assert found == text
