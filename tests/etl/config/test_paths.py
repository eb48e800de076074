"""Which place lies within which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.paths import folders_above, lies_within

names = st.lists(st.sampled_from(["a", "b", "ab", "{topic}"]), min_size=1, max_size=4).map("/".join)
paths = st.tuples(st.sampled_from(["/", "s3://", "s3://a/"]), names).map("".join) | st.sampled_from(["/", "s3://a/"])


@given(paths, paths)
def test_a_place_lies_within_the_folders_above_it_and_nowhere_else(inner: str, outer: str) -> None:
    assert (outer.rstrip("/") in folders_above(inner) or inner == outer) == lies_within(inner, outer)
