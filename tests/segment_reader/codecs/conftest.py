"""What the codecs' tests share: data that is compressed and damaged, and the outcome of decompressing it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import Codec, CodecFault
from kseg.segment_reader.errors import Fault


@pytest.fixture(scope="session")
def damaged() -> Callable[[Codec], st.SearchStrategy[bytes]]:
    """What a codec compressed: whole, cut off, with a byte changed, or with more behind it."""

    @st.composite
    def data(draw: st.DrawFn, codec: Codec) -> bytes:
        text = draw(st.binary(max_size=300)) * draw(st.sampled_from([1, 40, 400]))
        packed = bytearray(registry.compress(codec.number, text))
        kind = draw(st.sampled_from(["whole", "cut", "changed", "longer"]))
        at = draw(st.integers(0, max(0, len(packed) - 1)))
        if kind == "cut":
            del packed[at:]
        elif kind == "changed" and at < len(packed):
            packed[at] ^= draw(st.integers(1, 255))
        elif kind == "longer":
            packed += draw(st.sampled_from([b"\0", b"\1" * 20, bytes(packed)]))
        return bytes(packed)

    return data


@pytest.fixture(scope="session")
def outcome() -> Callable[..., bytes | Fault]:
    """outcome(codec, data, size of the buffer, limit): the decompressed bytes, or why there are none."""

    def decompressed(codec: Codec, data: bytes, size: int = 0, limit: int = 1 << 20) -> bytes | Fault:
        buffer = memoryview(bytearray(size))
        try:
            found = registry.decompress(codec.number, data, limit=limit, buffer=buffer)
        except CodecFault as fault:
            return fault.fault
        if isinstance(found, memoryview) and found.obj is buffer.obj:
            assert len(found) <= size
        return bytes(found)

    return decompressed
