"""What a listener keeps of a run: counted once whatever ran twice, bounded, and there also when the run fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kseg.client import TopicPartition
from kseg.etl.source.cost import TaskCost, TrafficLine
from kseg.etl.source.range_result import RangeResult
from kseg.etl.telemetry import recorder
from kseg.etl.telemetry.events import OffsetsObserved, PartitionView, ReadProgress, ReadStarted
from kseg.etl.telemetry.progress import Listeners, NullProgress
from kseg.etl.telemetry.recorder import Recorder, lag_of

TP = TopicPartition("orders", 0)
FETCH = TrafficLine("1", "Fetch", 18, 1, 1, 100, 1000)
COST = TaskCost(1.0, 2.0, "host", "host/1", 0, (FETCH,))


def range_result(index: int, *, cost: TaskCost | None = COST, **values: int) -> RangeResult:
    told = RangeResult(index, *TP, 10 * index, 10 * index + 10, data=10, bytes=1000, throttled=((1, 0.25),), cost=cost)
    return replace(told, **values)  # type: ignore[arg-type]


def reading(*ended: RangeResult, repeated: tuple[RangeResult, ...] = ()) -> ReadProgress:
    return ReadProgress(10, len(ended), 0, 0, 0, ended, repeated)


def test_a_task_that_ran_twice_counts_once_and_its_cost_twice() -> None:
    listener = Recorder()
    listener.event(ReadStarted("land", 2, {TP: 20}))
    listener.event(reading(range_result(0), range_result(1, cost=replace(COST, attempt=2))))
    listener.event(reading(repeated=(range_result(0),)))
    told = listener.close()
    assert (told.sums.tasks, told.sums.rows, told.sums.offsets, told.sums.bytes) == (2, 20, 20, 2000)
    assert told.sums.retries == 3, "two failures before, and one that ran again"
    assert (told.sums.repeated_rows, told.sums.repeated_bytes, told.sums.repeated_seconds) == (10, 1000, 2.0)
    assert told.partitions[TP].rows == 20
    assert told.throttled == {1: 0.75}
    assert [line.requests for line in told.traffic if line.api == "Fetch" and line.broker == "1"] == [3]
    assert [task.repeated for task in told.tasks] == [False, False, True]


def test_many_tasks_are_summed_up_and_the_slowest_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_TASKS", 10)
    listener = Recorder()
    for index in range(35):
        listener.event(reading(range_result(index, cost=replace(COST, seconds=float(index)))))
    told = listener.close()
    assert told.sums.tasks == 35
    assert len(told.tasks) <= 10
    assert len(told.tasks) + told.tasks_left_out == 35
    assert max(task.seconds for task in told.tasks) == 34


def test_the_first_and_the_last_look_at_a_partition_are_kept() -> None:
    listener = Recorder()
    listener.event(OffsetsObserved({TP: PartitionView(0, 100, 90)}))
    listener.event(OffsetsObserved({TP: PartitionView(frontier=40)}))
    listener.event(OffsetsObserved({TP: PartitionView(committed=35)}))
    listener.event(reading(range_result(0, high_watermark=130, last_stable_offset=120, log_start=5)))
    listener.event(OffsetsObserved({TP: PartitionView(committed=100, frontier=100)}))
    told = listener.close()
    assert told.first[TP] == PartitionView(0, 100, 90, 35, 40)
    assert told.last[TP] == PartitionView(5, 130, 120, 100, 100)
    assert (told.lag(told.first), told.lag(told.last)) == (50, 20)


@pytest.mark.parametrize(
    ("view", "lag"),
    [
        (PartitionView(), None),
        (PartitionView(log_start=10, high_watermark=30), 20),
        (PartitionView(log_start=10, high_watermark=30, last_stable_offset=25, frontier=20), 5),
        (PartitionView(last_stable_offset=25, frontier=30), 0),
    ],
)
def test_lag_goes_from_the_frontier_to_what_may_be_read(view: PartitionView, lag: int | None) -> None:
    assert lag_of(view) == lag


def test_all_listeners_are_told_everything() -> None:
    class Listener(NullProgress):
        def __init__(self) -> None:
            self.told: list[object] = []

        def phase(self, name: str) -> None:
            self.told.append(name)

        def total(self, amount: int, unit: str = "rows") -> None:
            self.told.append((amount, unit))

        def advance(self, amount: int = 1) -> None:
            self.told.append(amount)

        def message(self, text: str) -> None:
            self.told.append(text)

        def event(self, fact: object) -> None:
            self.told.append(fact)

    one, other = Listener(), Listener()
    both = Listeners([one, other])
    both.phase("land")
    both.total(5, "offsets")
    both.advance(2)
    both.message("so")
    both.event(reading())
    assert one.told == other.told == ["land", (5, "offsets"), 2, "so", reading()]
