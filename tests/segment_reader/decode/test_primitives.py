"""Compiled code: checksums as the libraries have them, one compilation for everything, a cache for other processes."""

from __future__ import annotations

import subprocess
import sys
import zlib

import crc32c
import numpy as np
import pytest
from numba.core import caching

from kseg.segment_reader.decode import jit, primitives
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

FRESH = """
from kseg.segment_reader.decode import kernel, scan
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch

decoder = RangeDecoder("t", 0, 0, 9, isolation_level="read_committed")
list(decoder.feed(encode_batch([Record(b"k", b"v")] * 9)))
assert decoder.counts.data == 9
for function in (kernel.fill, scan.scan, scan.plan):
    print(sum(function.stats.cache_misses.values()), sum(function.stats.cache_hits.values()))
"""


def test_checksums_of_every_length_and_alignment() -> None:
    data = np.frombuffer(np.random.default_rng(1).bytes(20_000), np.uint8)
    lengths = [*range(40), 255, 256, 767, 768, 769, 1535, 1536, 4096, 6143, 6144, 6145, 12_288, 16_000]
    for length in lengths:
        for start in (0, 1, 3, 8):
            part = data[start : start + length].tobytes()
            assert primitives.crc32c(data, start, start + length) == crc32c.crc32c(part)
            assert primitives.crc32c_by_table(data, start, start + length) == crc32c.crc32c(part)
            assert primitives.crc32(data, start, start + length) == zlib.crc32(part)


def test_one_compilation_serves_every_kind_of_buffer_and_option() -> None:
    from kseg.segment_reader.decode import kernel, scan

    batch = encode_batch([Record(b"k", b"v", [("h", None)])], compression="lz4") + encode_message_set(
        [Record()], magic=1, base_offset=1, compression="gzip"
    )
    for data in (batch, bytearray(batch), memoryview(batch), memoryview(bytearray(b"xx" + batch))[2:]):
        for flag in (True, False):
            decoder = RangeDecoder(
                "t",
                0,
                0,
                2,
                isolation_level="read_uncommitted",
                headers=flag,
                provenance=flag,
                null_timestamps=flag,
                check_crcs=flag,
            )
            assert sum(rows.num_rows for rows in [*decoder.feed(data), *decoder.finish()]) == 2
    for function in (kernel.fill, scan.scan, scan.plan, scan.scan_messages):
        assert len(function.signatures) == 1  # type: ignore[attr-defined]


def test_a_new_process_loads_what_another_one_compiled() -> None:
    for _ in range(2):  # the first may be the one that compiles
        done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["0", "1"] * 3


def test_without_a_directory_for_the_cache_code_runs_uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def twice(value: int) -> int:
        return 2 * value

    assert jit.compiled(twice)(21) == 42
