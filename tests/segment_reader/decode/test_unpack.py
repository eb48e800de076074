"""Compressed batches that compiled code decompresses: what Python says of them, compiled code says too."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.codecs.native import AVAILABLE, zstd_context
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode import compiled
from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, FRAME_OVERHEAD, LENGTH_AT, RECORDS_AT
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, seal
from kseg.segment_reader.errors import RecordFormatError

NATIVE = ("lz4", "zstd")
TEXT = b"some text that repeats, " * 40


def decoded(data: bytes, end: int, codecs: int, **limits: int) -> list[tuple[int, bytes | None]] | tuple[str, str]:
    """Offsets and values, or the error's type and text. codecs: those that compiled code may decompress."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", codecs)
        decoder = RangeDecoder("t", 0, 0, end, isolation_level="read_committed", limits=Limits(**limits))
        try:
            batches = [*decoder.feed(data), *decoder.finish()]
        except RecordFormatError as error:
            return type(error).__name__, str(error)
    return [
        (offset, value)
        for batch in batches
        for offset, value in zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def small_batches(codec: str, count: int, value: bytes = TEXT) -> bytes:
    rows = [Record(None, value + os.urandom(20), (), 1) for _ in range(3)]
    return b"".join(encode_batch(rows, base_offset=3 * n, compression=codec) for n in range(count))


@pytest.mark.parametrize("codec", NATIVE)
def test_the_libraries_export_their_functions(codec: str) -> None:
    assert AVAILABLE >> BY_NAME[codec].number & 1


@pytest.mark.parametrize("codec", NATIVE)
@pytest.mark.parametrize("group", [1, 1 << 16, 1 << 20])
def test_small_batches_need_no_python(codec: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small_batches(codec, 50)
    expected = decoded(data, 150, 0)
    assert len(expected) == 150

    def by_python(*_: Any) -> bytes:
        raise AssertionError("a batch was decompressed by Python")

    if codec == "zstd":  # which says no sizes: its frame may become a whole block
        group = max(group, 1 << 17)
    if group > 1:  # no batch fits into less
        monkeypatch.setattr(compiled.CompiledEngine, "_decompress", by_python)
    assert decoded(data, 150, AVAILABLE, group_bytes=group) == expected


@pytest.mark.parametrize("codec", BY_NAME)
def test_codecs_mixed_in_one_answer(codec: str) -> None:
    rows = [Record(b"k", TEXT, (), 1)]
    names = ["lz4", codec, "zstd", codec, codec, "none", "lz4"]
    data = b"".join(encode_batch(rows, base_offset=n, compression=name) for n, name in enumerate(names * 30))
    expected = [(n, TEXT) for n in range(210)]
    for group in (100, 3_000, 1 << 20):
        assert decoded(data, 210, AVAILABLE, group_bytes=group) == expected


@given(st.data())
def test_damaged_frames_give_the_same_rows_or_the_same_error(
    damaged_payload: Callable[[st.DrawFn, str], bytes], data: st.DataObject
) -> None:
    codec = data.draw(st.sampled_from(NATIVE))
    whole = encode_batch([Record(None, TEXT, (), 1)], compression=codec)
    payload = data.draw(st.composite(damaged_payload)(codec))
    batch = bytearray(whole[:RECORDS_AT] + payload)
    batch[LENGTH_AT : LENGTH_AT + 4] = (len(batch) - FRAME_OVERHEAD).to_bytes(4, "big")
    alone = seal(batch)
    after_others = small_batches(codec, 1) + (3).to_bytes(8, "big") + alone[8:]
    limits = {
        "group_bytes": data.draw(st.sampled_from([500, 1 << 20])),
        "max_batch_bytes": data.draw(st.sampled_from([300, 1 << 20])),
    }
    for record_set, end in ((alone, 1), (after_others, 4)):
        assert decoded(record_set, end, AVAILABLE, **limits) == decoded(record_set, end, 0, **limits)


@pytest.fixture(scope="module")
def damaged_payload() -> Callable[[st.DrawFn, str], bytes]:
    def draw_payload(draw: st.DrawFn, codec: str) -> bytes:
        rows = draw(st.integers(1, 3))
        whole = encode_batch([Record(None, TEXT * draw(st.sampled_from([1, 100])), (), 1)] * rows, compression=codec)
        payload = bytearray(whole[RECORDS_AT:])
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(payload) - 1) | st.integers(0, min(20, len(payload) - 1)))
            match draw(st.sampled_from(["set", "flip", "cut", "insert"])):
                case "set":
                    payload[at] = draw(st.sampled_from([0, 1, 0x60, 0x7F, 0x80, 0xFF]))
                case "flip":
                    payload[at] ^= 1 << draw(st.integers(0, 7))
                case "cut" if at:
                    del payload[at:]
                case _:
                    payload[at:at] = draw(st.binary(min_size=1, max_size=4))
        return bytes(payload)

    return draw_payload


def test_a_wrong_checksum_is_found_before_anything_is_decompressed() -> None:
    data = bytearray(small_batches("lz4", 3))
    data[-1] ^= 1
    found = decoded(bytes(data), 9, AVAILABLE)
    assert found == decoded(bytes(data), 9, 0)
    assert found[0] == "CorruptRecordBatch"


def test_a_zstd_window_above_the_default_limit_gives_the_same_rows() -> None:
    rows = [Record(None, TEXT, (), 1)]
    plain = encode_batch(rows)
    parameters = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    batch = bytearray(plain[:RECORDS_AT] + compressor.compress(plain[RECORDS_AT:]) + compressor.flush())
    batch[ATTRIBUTES_AT + 1] |= BY_NAME["zstd"].number
    batch[LENGTH_AT : LENGTH_AT + 4] = (len(batch) - FRAME_OVERHEAD).to_bytes(4, "big")
    record_set = seal(batch)
    assert decoded(record_set, 1, AVAILABLE) == decoded(record_set, 1, 0) == [(0, TEXT)]


def test_rows_may_be_taken_by_one_thread_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """zstd's working memory is a thread's own, and goes with the thread: another one's must not be used."""
    unpack, foreign = compiled.unpack, []

    def checked(*arguments: Any) -> Any:
        foreign.append(arguments[-1] != zstd_context())
        return unpack(*arguments[:-1], zstd_context())

    monkeypatch.setattr(compiled, "unpack", checked)
    limits = Limits(max_rows=30, group_bytes=10_000)
    decoder = RangeDecoder("t", 0, 0, 300, isolation_level="read_committed", limits=limits)
    batches = decoder.feed(small_batches("zstd", 100))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        rows = [pool.submit(next, batches).result().num_rows for pool in (one, other, one)]
    rows += [batch.num_rows for batch in (*batches, *decoder.finish())]
    assert sum(rows) == 300
    assert len(foreign) > 3
    assert not any(foreign)
