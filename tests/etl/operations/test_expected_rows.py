"""Which offsets `kseg verify` reads for the rows that a table should have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.operations.expected_rows import _sample, _without_holes

offsets = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 400)).map(lambda one: (one[0], sum(one)))).map(
    OffsetSet.of
)


@given(st.lists(offsets, min_size=1, max_size=3), st.integers(20, 400))
def test_a_sample_is_a_part_of_all_partitions_and_about_as_large_as_asked(sets: list[OffsetSet], most: int) -> None:
    whole = {TopicPartition("t", number): of_tp for number, of_tp in enumerate(sets)}
    sample = _sample(whole, most, block=10)
    assert all(not of_tp.subtract(whole[tp]) for tp, of_tp in sample.items())
    length, sampled = (sum(of_tp.length for of_tp in one.values()) for one in (whole, sample))
    if length <= most:
        assert sample == whole
    else:
        assert 0 < sampled <= most + 10, "at most one block more"


def test_the_blocks_of_a_sample_are_at_equal_distances() -> None:
    tp = TopicPartition("t", 0)
    sample = _sample({tp: OffsetSet.single(0, 10_000)}, 1_000, block=100)[tp]
    assert list(sample) == [(start, start + 100) for start in range(0, 10_000, 1_000)]


def test_small_holes_are_read_for_nothing() -> None:
    assert list(_without_holes(OffsetSet.of([(0, 5), (6, 10), (50_000, 50_001)]))) == [(0, 10), (50_000, 50_001)]
