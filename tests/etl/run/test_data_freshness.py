"""How old what has not landed is, by the times of batches."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, cast

import pytest

from kseg.client.errors import BrokerError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.problems import freshness_problem
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.run import data_freshness
from kseg.etl.run.data_freshness import Freshness, freshness_of
from kseg.etl.source.resolve import LogBounds

LIMIT = timedelta(minutes=15)


class Times:
    """Batches' times by partition, in seconds before now; None: the batch has none."""

    def __init__(self, ages: dict[int, float | None]) -> None:
        self.ages, self.asked = ages, list[tuple[TopicPartition, int]]()

    def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
        self.asked.append((tp, offset))
        age = self.ages[tp.partition]
        return None if age is None else int((time.time() - age) * 1000)


def observed(times: Times, lags: dict[int, int], limit: timedelta | None = LIMIT) -> Freshness:
    """Of a topic whose partitions have landed up to offset 100."""
    tps = {partition: TopicPartition("orders", partition) for partition in lags}
    bounds = {tps[p]: LogBounds(0, 100 + lag, 100 + lag, 0) for p, lag in lags.items()}
    snapshot = SourceSnapshot(
        None, {}, bounds, dict.fromkeys(bounds, 0), {tps[p]: 100 + lag for p, lag in lags.items()}
    )
    state = JobState(
        job="orders",
        ledger_id="l",
        bases=dict.fromkeys(bounds, 0),
        landed_offsets=dict.fromkeys(bounds, OffsetSet.single(0, 100)),
    )
    return freshness_of(cast("Any", times), snapshot, state, limit)


def test_the_oldest_record_that_has_not_landed_decides() -> None:
    times = Times({1: 60, 2: 3600})
    found = observed(times, {0: 0, 1: 5, 2: 1})
    assert [one.partition for one in found.partitions] == [2, 1, 0]
    assert found.partitions[0].seconds == pytest.approx(3600, abs=30)
    assert found.partitions[2].seconds == 0
    assert found.partitions[2].oldest is None
    assert found.late == ["orders-2"]
    assert found.seconds == found.partitions[0].seconds
    assert times.asked == [(TopicPartition("orders", 1), 100), (TopicPartition("orders", 2), 100)], "no lag, no request"


def test_without_a_limit_nothing_is_late_and_without_a_time_nothing_is_known() -> None:
    assert observed(Times({0: 9e6}), {0: 1}, None).late == []
    found = observed(Times({0: None}), {0: 1})
    assert (found.seconds, found.late, found.partitions[0].oldest) == (None, [], None)
    assert found.unknown == ["orders-0"]
    assert "no batch with a timestamp at offset 100" in str(found.why)


def test_an_unknown_age_is_a_problem_where_there_is_a_limit() -> None:
    """Without READ on the topic nothing was late, and `kseg status` ended with exit 0."""

    class Denied(Times):
        def batch_time(self, tp: TopicPartition, offset: int) -> int | None:
            if tp.partition == 1:
                return super().batch_time(tp, offset)
            raise BrokerError("Fetch: lacking: READ on topic orders", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    found = observed(Denied({1: 60}), {0: 5, 1: 5, 2: 0})
    assert (found.late, found.unknown, found.seconds) == ([], ["orders-0"], pytest.approx(60, abs=30))
    [problem] = freshness_problem(found)
    assert problem.code == "freshness-unknown"
    assert "READ on topic orders" in problem.message
    assert "(orders-0)" in problem.message
    assert not list(freshness_problem(observed(Denied({1: 60}), {0: 5}, None)))


def test_a_time_of_no_calendar_is_no_error() -> None:
    found = observed(Times({0: -9e14}), {0: 1})
    assert found.partitions[0].seconds == 0
    assert found.partitions[0].oldest is not None


def test_of_many_those_with_the_most_lag_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_freshness, "MOST_ASKED", 1)
    times = Times({0: 5, 1: 5, 2: 5})
    found = observed(times, {0: 1, 1: 7, 2: 3})
    assert found.not_asked == 2
    assert times.asked == [(TopicPartition("orders", 1), 100)]
