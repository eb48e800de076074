"""zstd: several frames, with and without content size, and a size that is false."""

from __future__ import annotations

import os
import subprocess
import sys

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


@pytest.mark.parametrize("window_log", [27, 28, 31])
def test_a_window_above_zstds_default_limit_is_read(window_log: int) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # says no content size
    wide = compressor.compress(b"text " * 100) + compressor.flush()
    assert zstandard.get_frame_parameters(wide).window_size == 1 << window_log
    assert registry.decompress(ZSTD.number, wide) == b"text " * 100
    assert registry.decompress(ZSTD.number, zstandard.compress(b"one") + wide) == b"one" + b"text " * 100
    with pytest.raises(CodecFault) as caught:
        registry.decompress(ZSTD.number, wide, limit=499)
    assert caught.value.fault is Fault.TOO_LARGE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits a process by its size in /proc")
def test_too_little_memory_for_a_window_is_no_fault_of_the_batch() -> None:
    program = """
import resource, sys
from kseg.segment_reader.codecs import registry
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 29),) * 2)
try:
    registry.decompress(4, bytes.fromhex(sys.argv[1]))
except MemoryError as error:
    print(error)
"""
    parameters = zstandard.ZstdCompressionParameters(window_log=31, compression_level=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    wide = compressor.compress(b"text") + compressor.flush()
    told = subprocess.run([sys.executable, "-c", program, wide.hex()], capture_output=True, text=True, check=True)
    assert "not enough memory" in told.stdout
