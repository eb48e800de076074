"""Which tasks share a Spark task."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.source.packing import LARGE, PACKS_PER_CORE, SMALL, packed
from kseg.etl.source.tasks import RangeTask


def tasks_of(lengths: list[int]) -> list[RangeTask]:
    return [RangeTask("t", number, 0, length, index=number) for number, length in enumerate(lengths)]


def test_ten_thousand_small_ranges_are_a_few_spark_tasks() -> None:
    packs = packed(tasks_of([3] * 10_000), cores=2)
    assert len(packs) <= 8
    assert max(map(len, packs)) < 2 * min(map(len, packs[:-1]))


def test_where_all_is_small_one_spark_task_reads_it() -> None:
    tasks = tasks_of([100, SMALL, 5])
    assert packed(tasks, cores=64) == (tuple(tasks),)


def test_a_large_range_is_read_alone() -> None:
    packs = packed(tasks_of([10, LARGE + 1, 10, 10, LARGE + 1]), cores=2)
    assert [[task.index for task in pack] for pack in packs] == [[0], [1], [2, 3], [4]]


def test_a_pack_has_rows_of_one_table_where_that_is_asked_for() -> None:
    tasks = [RangeTask(topic, 0, 0, 1, index=n) for n, topic in enumerate("aabbc")]
    packs = packed(tasks, cores=2, routes={"a": 0, "b": 1, "c": 1})
    assert [[task.topic for task in pack] for pack in packs] == [["a", "a"], ["b", "b", "c"]]


def test_files_of_many_tables_are_written_by_several_spark_tasks() -> None:
    tasks = [RangeTask(f"t{number}", 0, 0, 3, index=number) for number in range(1000)]
    routes = {task.topic: number for number, task in enumerate(tasks)}
    packs = packed(tasks, cores=2, routes=routes, mixed=True)
    assert len(packs) == PACKS_PER_CORE * 2
    assert max(map(len, packs)) < 1.1 * min(map(len, packs[:-1]))


def test_topics_of_two_tables_in_turn_make_two_files() -> None:
    tasks = [RangeTask(f"t{number}", 0, 0, 3, index=number) for number in range(1000)]
    routes = {task.topic: number % 2 for number, task in enumerate(tasks)}
    assert packed(tasks, cores=2, routes=routes, mixed=True) == (tuple(tasks),)


def test_rows_of_a_few_tables_are_written_by_one_spark_task() -> None:
    tasks = [RangeTask(topic, 0, 0, 10, index=number) for number, topic in enumerate("abcde" * 8)]
    assert packed(tasks, cores=64, routes={topic: n for n, topic in enumerate("abcde")}, mixed=True) == (tuple(tasks),)


@given(st.lists(st.integers(1, 3 * LARGE), max_size=50), st.integers(1, 64))
def test_each_task_is_in_one_pack_and_none_grows_too_large(lengths: list[int], cores: int) -> None:
    tasks = tasks_of(lengths)
    packs = packed(tasks, cores=cores)
    assert [task for pack in packs for task in pack] == tasks
    assert all(len(pack) == 1 or sum(task.length for task in pack) <= LARGE for pack in packs)
    # Whatever two neighbours are, together they were too much for one.
    most = max(SMALL, -(-sum(lengths) // max(1, min(sum(lengths) // SMALL, PACKS_PER_CORE * cores))))
    sizes = [sum(task.length for task in pack) for pack in packs]
    assert all(a + b > min(LARGE, most) for a, b in pairwise(sizes))
