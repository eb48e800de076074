"""gzip: several members, and two libraries that agree."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

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
