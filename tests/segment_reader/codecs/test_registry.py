"""Codecs as other clients write them, and caps on what they unpack to."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.registry import GZIP, LZ4, SNAPPY, ZSTD, CodecFault
from kseg.segment_reader.errors import Fault

TEXT = b"some text that repeats, " * 9000 + os.urandom(50_000)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("data", [b"", b"a", TEXT, TEXT * 20])
def test_what_is_packed_unpacks(codec: int, magic: int, data: bytes) -> None:
    assert bytes(registry.decompress(codec, registry.compress(codec, data, magic=magic), magic=magic)) == data


def test_kafka_pythons_framing_is_read_and_written(kafka_python: Any) -> None:
    theirs = kafka_python.codec
    for number, pack, unpack in (
        (GZIP, theirs.gzip_encode, theirs.gzip_decode),
        (SNAPPY, theirs.snappy_encode, theirs.snappy_decode),
        (LZ4, theirs.lz4_encode, theirs.lz4_decode),
        (ZSTD, theirs.zstd_encode, theirs.zstd_decode),
    ):
        assert bytes(registry.decompress(number, pack(TEXT))) == TEXT
        assert bytes(unpack(registry.compress(number, TEXT))) == TEXT


def test_several_members_and_frames_are_joined() -> None:
    assert registry.decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    sized = zstandard.compress(b"one")
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"two")
    for frames in (sized + unsized, unsized + sized, sized + sized, unsized + unsized):
        assert len(registry.decompress(ZSTD, frames)) == 6


def test_snappy_comes_framed_or_raw() -> None:
    assert bytes(registry.decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT
    assert registry.compress(SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_old_header_checksum_of_lz4_is_written_for_magic_0_and_not_minded() -> None:
    old, right = registry.compress(LZ4, TEXT, magic=0), registry.compress(LZ4, TEXT)
    assert [i for i, (a, b) in enumerate(zip(old, right, strict=True)) if a != b] == [6]
    assert bytes(registry.decompress(LZ4, right, magic=0)) == TEXT
    with pytest.raises(CodecFault):
        registry.decompress(LZ4, old, magic=1)


@pytest.mark.parametrize("size", [True, False])
def test_lz4_checksum_is_set_right_whatever_the_descriptor_holds(size: bool) -> None:
    for linked in (True, False):
        frame = bytearray(lz4.frame.compress(TEXT, store_size=size, block_linked=linked, content_checksum=True))
        end = 14 if size else 6
        frame[end] ^= 0x55
        assert bytes(registry.decompress(LZ4, bytes(frame), magic=0)) == TEXT


def test_known_values_of_the_hash() -> None:
    assert registry._xxh32(b"") == 0x02CC5D05
    assert registry._xxh32(b"abc") == 0x32D153FF


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_cap_is_exact_for_what_kafka_writes(codec: int) -> None:
    packed = registry.compress(codec, TEXT)
    assert len(registry.decompress(codec, packed, limit=len(TEXT))) == len(TEXT)
    with pytest.raises(CodecFault) as caught:
        registry.decompress(codec, packed, limit=len(TEXT) - 1)
    assert caught.value.fault is Fault.TOO_LARGE


def test_a_size_that_is_a_lie_allocates_nothing() -> None:
    huge = (1 << 40).to_bytes(8, "little")
    frame = bytearray(lz4.frame.compress(b"tiny", store_size=True))
    frame[6:14] = huge
    for codec, data in (
        (LZ4, registry._with_header_checksum(frame, bytes(frame[4:14]))),
        (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"tiny"),
        (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + huge + b"\x01\x00\x00"),
    ):
        with pytest.raises(CodecFault) as caught:
            registry.decompress(codec, data)
        assert caught.value.fault is Fault.TOO_LARGE


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_every_cut_is_found_or_gives_less(codec: int) -> None:
    packed = registry.compress(codec, TEXT)
    whole, at = {16}, 16  # framed snappy has no end: after any block it may be over
    while codec == SNAPPY and at < len(packed):
        at += 4 + int.from_bytes(packed[at : at + 4], "big")
        whole.add(at)
    for cut in {*range(0, len(packed), 997), *whole} - {len(packed)}:
        if codec == SNAPPY and cut in whole:
            assert TEXT.startswith(bytes(registry.decompress(codec, packed[:cut])))
            continue
        with pytest.raises(CodecFault) as caught:
            registry.decompress(codec, packed[:cut])
        assert caught.value.fault is Fault.DECOMPRESS


# ---- every way of unpacking gives the same answer


def outcome(codec: int, data: bytes, room: int = 0, limit: int = 1 << 20) -> bytes | Fault:
    space = memoryview(bytearray(room))
    try:
        found = registry.decompress(codec, data, limit=limit, room=space)
    except CodecFault as fault:
        return fault.fault
    if isinstance(found, memoryview) and found.obj is space.obj:
        assert len(found) <= room
    return bytes(found)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, bytes]:
    """A codec's number, and what it packed: whole, cut off, with a byte changed, or with more behind it."""
    codec = draw(st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]))
    text = draw(st.binary(max_size=300)) * draw(st.sampled_from([1, 40, 400]))
    packed = bytearray(registry.compress(codec, text))
    kind = draw(st.sampled_from(["whole", "cut", "changed", "longer"]))
    at = draw(st.integers(0, max(0, len(packed) - 1)))
    if kind == "cut":
        del packed[at:]
    elif kind == "changed" and at < len(packed):
        packed[at] ^= draw(st.integers(1, 255))
    elif kind == "longer":
        packed += draw(st.sampled_from([b"\0", b"\1" * 20, bytes(packed)]))
    return codec, bytes(packed)


@given(damaged(), st.sampled_from([100, 5000, 200_000]), st.sampled_from([1000, 1 << 20]))
def test_room_to_unpack_into_changes_no_answer(found: tuple[int, bytes], room: int, limit: int) -> None:
    codec, data = found
    assert outcome(codec, data, room, limit) == outcome(codec, data, 0, limit)


@given(damaged())
def test_lz4_by_blocks_answers_as_the_library_does(found: tuple[int, bytes]) -> None:
    codec, data = found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_LZ4_PLAIN", {})
        whole = outcome(codec, data)
    assert outcome(codec, data) == whole


@given(damaged())
def test_gzip_by_isal_answers_as_zlib_does(found: tuple[int, bytes]) -> None:
    codec, data = found
    answers = []
    for module in (zlib, isal_zlib):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registry, "inflate", module)
            answers.append(outcome(codec, data))
    assert answers[0] == answers[1]


def test_small_batches_unpack_into_the_room_that_is_given() -> None:
    text = os.urandom(3000) * 5
    for codec in (SNAPPY, LZ4, ZSTD):
        space = memoryview(bytearray(1 << 20))
        found = registry.decompress(codec, registry.compress(codec, text), room=space)
        assert isinstance(found, memoryview)
        assert found.obj is space.obj
        assert found == text
