"""All codecs: compressed data decompresses, as other clients have it, within the limit, damaged or not."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
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
#: The same data framed as Java's client does not: a content size, linked blocks, one raw block.
_FOREIGN: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:]),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: lz4.frame.compress(data, block_linked=True, content_checksum=True),
    "zstd": zstandard.ZstdCompressor(write_content_size=True).compress,
}

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


@codecs
@pytest.mark.parametrize("framing", ["own", "foreign"])
def test_what_is_near_the_limit_costs_about_its_size(codec: Codec, framing: str) -> None:
    limit = 32 << 20
    data = bytes(limit)
    packed = registry.compress(codec.number, data) if framing == "own" else _FOREIGN[codec.name](data)
    registry.decompress(codec.number, registry.compress(codec.number, b"warm"))
    tracemalloc.start()
    found = registry.decompress(codec.number, packed, limit=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == data
    assert peak < limit * 1.3  # a step or a block is there twice


@codecs
def test_beyond_the_limit_no_more_is_taken_than_the_limit(codec: Codec) -> None:
    packed = registry.compress(codec.number, bytes(256 << 20))
    tracemalloc.start()
    with pytest.raises(CodecFault) as caught:
        registry.decompress(codec.number, packed, limit=64 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.fault is Fault.TOO_LARGE
    assert peak < 96 << 20
