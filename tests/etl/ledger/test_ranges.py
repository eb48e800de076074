"""Offset sets against the plainest model there is: Python's own sets of offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import EMPTY, OffsetRange, OffsetSet, offsets_of, union_of

offsets = st.integers(0, 30)
intervals = st.lists(st.tuples(offsets, offsets).map(lambda pair: (min(pair), max(pair))), max_size=8)


def model(pairs):
    return {offset for start, end in pairs for offset in range(start, end)}


def members(found: OffsetSet):
    return model(found.intervals)


@given(intervals)
def test_a_set_holds_what_its_intervals_hold_in_canonical_form(pairs):
    found = OffsetSet.of(pairs)
    assert members(found) == model(pairs)
    assert found.length == len(model(pairs))
    # Disjoint, in order, none empty, none touching: checked by the constructor.
    assert OffsetSet(found.intervals) == found
    assert all((offset in found) == (offset in model(pairs)) for offset in range(32))


@given(intervals, intervals)
def test_union_difference_and_intersection_are_those_of_sets(left, right):
    a, b = OffsetSet.of(left), OffsetSet.of(right)
    assert members(a.union(b)) == model(left) | model(right)
    assert members(a.subtract(b)) == model(left) - model(right)
    assert members(a.intersect(b)) == model(left) & model(right)
    assert a.union(b) == b.union(a)
    assert a.subtract(b).union(a.intersect(b)) == a


@given(intervals, offsets)
def test_the_frontier_is_the_first_offset_from_the_base_on_that_is_missing(pairs, base):
    frontier = base
    while frontier in model(pairs):
        frontier += 1
    assert OffsetSet.of(pairs).contiguous_from(base) == frontier


@given(intervals, offsets, offsets)
def test_what_is_missing_in_a_range(pairs, start, end):
    assert members(OffsetSet.of(pairs).missing_in(start, end)) == set(range(start, end)) - model(pairs)


@given(intervals)
def test_json_round_trip(pairs):
    found = OffsetSet.of(pairs)
    assert OffsetSet.from_json(found.to_json()) == found


def test_equal_sets_are_equal_however_they_were_built():
    assert OffsetSet.of([(5, 9), (0, 3), (3, 5)]) == OffsetSet.single(0, 9)
    assert hash(EMPTY.add(0, 4).add(4, 9)) == hash(OffsetSet.single(0, 9))
    assert OffsetSet.single(4, 4) == EMPTY
    assert not EMPTY


@pytest.mark.parametrize("bad", [((3, 3),), ((0, 3), (3, 4)), ((5, 9), (0, 3)), ((4, 2),)])
def test_a_form_that_is_not_canonical_is_refused(bad):
    with pytest.raises(ValueError, match="canonical"):
        OffsetSet(bad)


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (5, 4)])
def test_ranges_that_are_none_are_refused(start, end):
    with pytest.raises(ValueError, match="not an offset range"):
        OffsetRange("orders", 0, start, end)
    with pytest.raises(ValueError, match="not an interval"):
        OffsetSet.of([(start, end)])


def test_a_set_as_ranges_of_a_partition():
    tp = TopicPartition("orders", 3)
    found = OffsetSet.of([(0, 3), (7, 9)])
    assert found.ranges(tp) == (OffsetRange("orders", 3, 0, 3), OffsetRange("orders", 3, 7, 9))
    assert [r.length for r in found.ranges(tp)] == [3, 2]
    assert found.ranges(tp)[0].tp == tp
    assert str(found.ranges(tp)[1]) == "orders-3 [7, 9)"


def test_ranges_of_many_partitions_as_a_set_for_each():
    found = offsets_of([OffsetRange("a", 0, 5, 9), OffsetRange("b", 0, 1, 2), OffsetRange("a", 0, 0, 5)])
    assert found == {
        TopicPartition("a", 0): OffsetSet.single(0, 9),
        TopicPartition("b", 0): OffsetSet.single(1, 2),
    }


def test_a_union_of_several_is_made_by_partition():
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    several = [{a: OffsetSet.single(5, 9), b: OffsetSet.single(1, 2)}, {}, {a: OffsetSet.single(0, 5)}]
    assert union_of(several) == {a: OffsetSet.single(0, 9), b: OffsetSet.single(1, 2)}
