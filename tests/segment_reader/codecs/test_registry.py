"""All codecs: compressed data decompresses, as other clients have it, within the limit, damaged or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.codecs.none import NONE
from kseg.segment_reader.codecs.registry import CODECS
from kseg.segment_reader.codecs.snappy import SNAPPY
from kseg.segment_reader.errors import Fault

TEXT = b"some text that repeats, " * 9000 + os.urandom(50_000)

COMPRESSING = [codec for codec in CODECS if codec is not NONE]
codecs = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.name)


def test_names_and_numbers_are_unique_and_fit_the_attributes() -> None:
    assert [codec.number for codec in CODECS] == list(range(len(CODECS)))
    assert len(registry.BY_NAME) == len(registry.BY_NUMBER) == len(CODECS) <= 8


@pytest.mark.rule(103, 112, 126)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("data", [b"", b"a", TEXT, TEXT * 20])
def test_what_is_packed_unpacks(codec: Codec, magic: int, data: bytes) -> None:
    packed = registry.compress(codec.number, data, magic=magic)
    assert bytes(registry.decompress(codec.number, packed, magic=magic)) == data


@codecs
def test_kafka_pythons_framing_is_read_and_written(kafka_python: Any, codec: Codec) -> None:
    if not hasattr(kafka_python.codec, f"{codec.name}_encode"):
        pytest.skip(f"kafka-python has no {codec.name}")
    pack, unpack = (getattr(kafka_python.codec, f"{codec.name}_{way}") for way in ("encode", "decode"))
    assert bytes(registry.decompress(codec.number, pack(TEXT))) == TEXT
    assert bytes(unpack(registry.compress(codec.number, TEXT))) == TEXT


@codecs
def test_cap_is_exact_for_what_kafka_writes(codec: Codec) -> None:
    packed = registry.compress(codec.number, TEXT)
    assert len(registry.decompress(codec.number, packed, limit=len(TEXT))) == len(TEXT)
    with pytest.raises(CodecFault) as caught:
        registry.decompress(codec.number, packed, limit=len(TEXT) - 1)
    assert caught.value.fault is Fault.TOO_LARGE


@codecs
def test_every_cut_is_found_or_gives_less(codec: Codec) -> None:
    packed = registry.compress(codec.number, TEXT)
    whole, at = {16}, 16  # framed snappy has no end: after any block it may be over
    while codec is SNAPPY and at < len(packed):
        at += 4 + int.from_bytes(packed[at : at + 4], "big")
        whole.add(at)
    for cut in {*range(0, len(packed), 997), *whole} - {len(packed)}:
        if codec is SNAPPY and cut in whole:
            assert TEXT.startswith(bytes(registry.decompress(codec.number, packed[:cut])))
            continue
        with pytest.raises(CodecFault) as caught:
            registry.decompress(codec.number, packed[:cut])
        assert caught.value.fault is Fault.DECOMPRESS


def test_a_number_without_a_codec_is_rejected() -> None:
    with pytest.raises(CodecFault) as caught:
        registry.decompress(7, b"")
    assert caught.value.fault is Fault.CODEC


@given(st.data(), st.sampled_from(COMPRESSING), st.sampled_from([100, 5000, 200_000]), st.sampled_from([1000, 1 << 20]))
def test_a_buffer_to_decompress_into_changes_no_outcome(
    damaged: Callable[[Codec], st.SearchStrategy[bytes]],
    outcome: Callable[..., bytes | Fault],
    data: st.DataObject,
    codec: Codec,
    size: int,
    limit: int,
) -> None:
    packed = data.draw(damaged(codec))
    assert outcome(codec, packed, size, limit) == outcome(codec, packed, 0, limit)
