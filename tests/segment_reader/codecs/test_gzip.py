"""gzip: several members, and two libraries that agree."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from kseg.segment_reader.codecs import gzip as codec
from kseg.segment_reader.codecs import registry
from kseg.segment_reader.codecs.codec import Codec
from kseg.segment_reader.codecs.gzip import GZIP
from kseg.segment_reader.errors import Fault


@pytest.mark.rule(114)
def test_several_members_are_joined() -> None:
    assert registry.decompress(GZIP.number, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


class _Counting:
    """A member's decompressor that counts the bytes it was given, and what it gave back unused."""

    bytes = 0

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    def decompress(self, data: bytes, limit: int) -> bytes:
        part = self._inner.decompress(data, limit)
        _Counting.bytes += len(data) + len(self._inner.unused_data) + len(self._inner.unconsumed_tail)
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("members", [200, 20_000])
def test_work_grows_with_the_size_not_with_its_square(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "inflate", SimpleNamespace(decompressobj=_Counting))
    monkeypatch.setattr(_Counting, "bytes", 0)
    packed = gzip.compress(b"one") + gzip.compress(b"") * members
    assert registry.decompress(GZIP.number, packed) == b"one"
    assert _Counting.bytes < 30 * len(packed) + (1 << 20)


def test_a_member_that_ends_with_a_step_is_whole(outcome: Callable[..., bytes | Fault]) -> None:
    for size in (codec._STEP - 1, codec._STEP, codec._STEP + 1, 2 * codec._STEP):
        for tail in (b"", b"tail"):
            packed = gzip.compress(bytes(size)) + (gzip.compress(tail) if tail else b"")
            assert outcome(GZIP, packed, limit=1 << 24) == bytes(size) + tail


@given(st.data())
def test_gzip_by_isal_answers_as_zlib_does(
    damaged: Callable[[Codec], st.SearchStrategy[bytes]],
    outcome: Callable[..., bytes | Fault],
    data: st.DataObject,
) -> None:
    packed = data.draw(damaged(GZIP))
    answers = []
    for module in (zlib, isal_zlib):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codec, "inflate", module)
            answers.append(outcome(GZIP, packed))
    assert answers[0] == answers[1]
