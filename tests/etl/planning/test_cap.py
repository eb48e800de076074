"""What a capped plan reads: never more than the cap, never nothing, fairly, and every partition after some runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.sections import Run
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.planning.cap import capped, runs_for, share

PARTITIONS = [TopicPartition("t", number) for number in range(6)]
lengths_of = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(1, 50), min_size=1)
costs_of = st.fixed_dictionaries({tp: st.integers(1, 40) for tp in PARTITIONS})
offset_sets = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=4).map(
    lambda pairs: OffsetSet.of((min(pair), max(pair)) for pair in pairs)
)
unread_of = st.dictionaries(st.sampled_from(PARTITIONS), offset_sets).filter(lambda unread: any(unread.values()))


def weight(taken: dict[TopicPartition, int], costs: dict[TopicPartition, int]) -> int:
    return sum(count * costs[tp] for tp, count in taken.items())


@given(lengths_of, st.integers(1, 500), costs_of)
def test_a_share_is_below_the_cap_and_uses_it_up(
    lengths: dict[TopicPartition, int], most: int, costs: dict[TopicPartition, int]
) -> None:
    taken = share(lengths, most, costs)
    first = next(iter(lengths))
    assert taken[first] >= 1
    assert all(0 < count <= lengths[tp] for tp, count in taken.items())
    over = weight(taken, costs) - most
    assert over <= 0 or (taken[first] == 1 and over <= costs[first])
    short = [tp for tp in lengths if taken.get(tp, 0) < lengths[tp]]
    if over < 0 and short:  # what is left over would not give each of them one more
        assert -over < sum(costs[tp] for tp in short)


@given(lengths_of, st.integers(1, 500), costs_of)
def test_a_share_is_equal_but_for_one_record(
    lengths: dict[TopicPartition, int], most: int, costs: dict[TopicPartition, int]
) -> None:
    """No partition that has more to give has less than another one, by more than the size of a record of each."""
    taken = share(lengths, most, costs)
    for one in lengths:
        for other in lengths:
            if taken.get(one, 0) < lengths[one]:
                given_by_one, by_other = taken.get(one, 0) * costs[one], taken.get(other, 0) * costs[other]
                assert by_other - given_by_one <= costs[one] + costs[other]


@given(lengths_of, st.integers(1, 300))
def test_of_a_larger_cap_no_partition_gives_fewer_records(lengths: dict[TopicPartition, int], most: int) -> None:
    ones = dict.fromkeys(PARTITIONS, 1)
    smaller, larger = share(lengths, most, ones), share(lengths, most + 1, ones)
    assert sum(smaller.values()) == min(most, sum(lengths.values()))
    assert all(smaller.get(tp, 0) <= larger.get(tp, 0) for tp in lengths)


@given(unread_of, st.integers(1, 100), st.none() | st.integers(1, 2000), costs_of, st.integers(0, 20))
def test_lowest_offsets_first(
    unread: dict[TopicPartition, OffsetSet], records: int, size: int | None, costs: dict[TopicPartition, int], turn: int
) -> None:
    planned = capped(unread, Run(max_records=records, max_bytes=size), costs, PARTITIONS, turn)
    assert planned
    assert sum(offsets.length for offsets in planned.values()) <= records
    for tp, offsets in planned.items():
        assert offsets
        assert offsets == unread[tp].first(offsets.length)
        assert offsets.subtract(unread[tp]).length == 0


@given(
    unread_of, st.none() | st.integers(1, 8), st.none() | st.integers(1, 60), costs_of, st.integers(0, 20), st.data()
)
def test_each_partition_is_read_within_as_many_runs_as_there_are_partitions(
    unread: dict[TopicPartition, OffsetSet],
    records: int | None,
    size: int | None,
    costs: dict[TopicPartition, int],
    turn: int,
    data: st.DataObject,
) -> None:
    """Also while producers fill the others: here each has as much again before each run."""
    run = Run(max_records=records, max_bytes=size)
    waiting = {tp for tp, offsets in unread.items() if offsets}
    for later in range(len(PARTITIONS)):
        waiting -= capped(unread, run, costs, PARTITIONS, turn + later).keys()
        grown = data.draw(st.dictionaries(st.sampled_from(PARTITIONS), st.just(OffsetSet.single(0, 50))))
        unread = unread | {tp: offsets for tp, offsets in grown.items() if tp not in waiting}
    assert not waiting


@given(unread_of, st.integers(1, 30), costs_of, st.integers(0, 3))
def test_successive_runs_read_everything_once(
    unread: dict[TopicPartition, OffsetSet], size: int, costs: dict[TopicPartition, int], turn: int
) -> None:
    run, left, read = Run(max_bytes=size), dict(unread), 0
    while any(left.values()):
        planned = capped(left, run, costs, PARTITIONS, turn)
        left |= {tp: left[tp].subtract(offsets) for tp, offsets in planned.items()}
        read, turn = read + sum(offsets.length for offsets in planned.values()), turn + 1
    assert read == sum(offsets.length for offsets in unread.values())


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (13, [1, 4, 4, 4]),
        (15, [1, 5, 5, 4]),  # the odd two go to those whose turn comes first
        (2, [1, 1]),
        (1000, [1, 5, 100, 100]),
    ],
)
def test_partitions_with_little_give_all_of_it(most: int, expected: list[int]) -> None:
    lengths = dict(zip(PARTITIONS, [1, 5, 100, 100], strict=False))
    taken = share(lengths, most, dict.fromkeys(lengths, 1))
    assert list(taken.values()) == expected


def test_a_record_larger_than_the_cap_is_read_alone_in_its_turn() -> None:
    unread = {tp: OffsetSet.single(0, 10) for tp in PARTITIONS[:3]}
    sizes = {PARTITIONS[0]: 5_000_000.0, PARTITIONS[1]: 99.5, PARTITIONS[2]: 100.0}
    run = Run(max_bytes=1000)
    assert capped(unread, run, sizes, PARTITIONS[:3], 0) == {
        PARTITIONS[0]: OffsetSet.single(0, 1),
        PARTITIONS[1]: OffsetSet.single(0, 4),
        PARTITIONS[2]: OffsetSet.single(0, 4),
    }
    assert PARTITIONS[0] not in capped(unread, run, sizes, PARTITIONS[:3], 1)


def test_about_how_many_runs() -> None:
    left = {PARTITIONS[0]: 100, PARTITIONS[1]: 1}.items()
    assert runs_for(left, Run(max_records=25), {}) == 5
    assert runs_for(left, Run(max_records=25, max_bytes=10), {PARTITIONS[0]: 2.5}) == 26
    assert runs_for(left, Run(), {}) == 1
    assert runs_for([], Run(max_records=1), {}) == 0
