"""Requests as differences between two looks at a process's tallies."""

from __future__ import annotations

import pytest

from kseg.client.wire.trace import TRAFFIC
from kseg.etl.source.cost import MAX_LINES, OTHERS, TrafficLine, added_up, bounded, since


@pytest.fixture(autouse=True)
def _afresh() -> None:
    TRAFFIC.reset()


def test_what_was_there_before_is_not_told() -> None:
    TRAFFIC.tally("1", "Fetch", 18).requests += 5
    before = TRAFFIC.snapshot()
    assert since(before) == ()
    TRAFFIC.tally("1", "Fetch", 18).requests += 2
    TRAFFIC.tally("1", "Fetch", 18).errors += 1
    TRAFFIC.tally("2", "Metadata", 13).bytes_in += 100
    assert sorted(since(before), key=lambda line: line.broker) == [
        TrafficLine("1", "Fetch", 18, requests=2, errors=1),
        TrafficLine("2", "Metadata", 13, bytes_in=100),
    ]


def test_lines_of_one_broker_api_and_version_add_up() -> None:
    lines = [TrafficLine("1", "Fetch", 18, 1, 1, 10, 100, 5, 0), TrafficLine("1", "Fetch", 18, 2, 1, 20, 200, 0, 1)]
    assert added_up([*lines, TrafficLine("1", "Fetch", 17, 1)]) == (
        TrafficLine("1", "Fetch", 17, 1),
        TrafficLine("1", "Fetch", 18, 3, 2, 30, 300, 5, 1),
    )


def test_a_task_that_asks_many_brokers_tells_a_bounded_number_of_lines_and_all_of_their_sum() -> None:
    lines = [TrafficLine(str(broker), "Fetch", 18, 1, bytes_in=broker) for broker in range(3 * MAX_LINES)]
    kept = bounded(lines)
    assert len(kept) == MAX_LINES + 1
    assert sum(line.requests for line in kept) == 3 * MAX_LINES
    assert sum(line.bytes_in for line in kept) == sum(range(3 * MAX_LINES))
    assert kept[-1].broker == OTHERS
    assert kept[0].broker == str(3 * MAX_LINES - 1), "the busiest first"
