"""Cutting ranges into tasks: nothing lost, nothing twice, even sizes, the same every time."""

from __future__ import annotations

import pickle
from collections import defaultdict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client import TopicPartition
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.tasks import RangeTask, split


@st.composite
def disjoint_ranges(draw: st.DrawFn) -> list[OffsetRange]:
    ranges = []
    for topic in draw(st.sets(st.sampled_from("abc"), min_size=1)):
        for partition in draw(st.sets(st.integers(0, 4), min_size=1)):
            offset = draw(st.integers(0, 50))
            for _ in range(draw(st.integers(0, 3))):
                length = draw(st.integers(1, 300))
                ranges.append(OffsetRange(topic, partition, offset, offset + length))
                offset += length + draw(st.integers(1, 20))
    return ranges


@given(disjoint_ranges(), st.none() | st.integers(1, 100), st.integers(1, 40))
def test_tasks_cover_exactly_the_ranges(ranges: list[OffsetRange], max_records: int | None, min_tasks: int) -> None:
    tasks = split(ranges, max_records=max_records, min_tasks=min_tasks)
    assert [task.index for task in tasks] == list(range(len(tasks)))
    wanted = sorted((r.topic, r.partition, offset) for r in ranges for offset in range(r.start, r.end))
    assert sorted((t.topic, t.partition, offset) for t in tasks for offset in range(t.start, t.end)) == wanted
    assert all(task.length > 0 for task in tasks)
    assert max_records is None or all(task.length <= max_records for task in tasks)
    assert len(tasks) >= min(min_tasks, len(wanted))
    assert split(reversed(ranges), max_records=max_records, min_tasks=min_tasks) == tasks


@given(st.integers(1, 10_000), st.integers(1, 500))
def test_pieces_of_one_range_differ_by_at_most_one(length: int, max_records: int) -> None:
    lengths = {task.length for task in split([OffsetRange("t", 0, 7, 7 + length)], max_records=max_records)}
    assert max(lengths) - min(lengths) <= 1


def test_the_longest_range_is_cut_first() -> None:
    tasks = split([OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)], min_tasks=4)
    lengths = sorted((t.partition, t.length) for t in tasks)
    assert lengths == [(0, 300), (0, 300), (0, 300), (1, 100)]


def test_a_hint_at_bytes_cuts_dense_partitions() -> None:
    tasks = split(
        [OffsetRange("t", 0, 0, 1000), OffsetRange("t", 1, 0, 1000)],
        bytes_per_offset={TopicPartition("t", 0): 1000.0, TopicPartition("t", 1): 10.0},
        max_bytes=250_000,
    )
    assert sorted((t.partition, t.length) for t in tasks) == [(0, 250)] * 4 + [(1, 1000)]


def test_neighbouring_tasks_ask_different_brokers_and_partitions() -> None:
    ranges = [OffsetRange("t", partition, 0, 30) for partition in range(4)]
    leaders = {TopicPartition("t", partition): partition // 2 for partition in range(4)}
    tasks = split(ranges, max_records=10, leaders=leaders)
    assert [task.partition for task in tasks] == [0, 2, 1, 3] * 3
    starts = defaultdict(list)
    for task in tasks:
        starts[task.partition].append(task.start)
    assert set(map(tuple, starts.values())) == {(0, 10, 20)}


def test_tasks_carry_topic_id_and_leader_epoch() -> None:
    class Planned(OffsetRange):
        leader_epoch = 5

    (task,) = split([Planned("t", 0, 0, 3)], topic_ids={"t": UUID(int=1)})
    assert (task.topic_id, task.leader_epoch) == (UUID(int=1), 5)
    (task,) = split([OffsetRange("t", 0, 0, 3)])
    assert (task.topic_id, task.leader_epoch) == (None, -1)


def test_no_ranges_no_tasks() -> None:
    assert split([], min_tasks=8) == ()
    assert split([OffsetRange("t", 0, 5, 5)]) == ()


def test_a_task_pickles_and_names_its_range() -> None:
    task = RangeTask("orders", 3, 10, 20, 7)
    assert pickle.loads(pickle.dumps(task)) == task
    assert str(task) == "orders-3[10, 20)"


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"min_tasks": 0}, {"max_bytes": -1}])
def test_limits_must_be_positive(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        split([], **limits)  # type: ignore[arg-type]
