"""When a boundary is closed, rule by rule, and what must hold of any history of pins."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.interval import IntervalRules
from kseg.etl.planning.watermark import Observation, evaluate

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
T, SECOND, MINUTE, HOUR = 1_000_000_000, 1_000, 60_000, 3_600_000
QUIET = Observation(last_stable=50, high_watermark=50)
PASSED = Observation(last_stable=50, high_watermark=50, first=40, passed=True)
UNDECIDED = Observation(last_stable=50, high_watermark=60)
RULES = IntervalRules()
LATE = IntervalRules(allowed_lateness=timedelta(minutes=5))


def answer(a: Observation, b: Observation | None = None, rules: IntervalRules = RULES, now: int = T + SECOND) -> Any:
    decision = evaluate(T, {A: a} if b is None else {A: a, B: b}, rules, now)[A]
    return decision.rule, decision.offset


@pytest.mark.parametrize(
    ("observation", "other", "after", "expected"),
    [
        (replace(QUIET, pinned=7), None, -HOUR, ("pinned", 7)),
        (replace(QUIET, newcomer=3), None, -HOUR, ("pinned", 3)),
        (replace(QUIET, ceiling=30), None, -HOUR, ("pinned", 30)),
        (replace(QUIET, ceiling=30, first=20), None, 0, ("pinned", 20)),
        (PASSED, None, 0, ("watermark", 40)),
        (PASSED, None, -1, (None, None)),  # the clock has not come to it
        (replace(PASSED, floor=45), None, 0, ("watermark", 45)),
        (QUIET, None, MINUTE, (None, None)),  # nobody to compare with
        (QUIET, PASSED, MINUTE - 1, (None, None)),
        (QUIET, PASSED, MINUTE, ("idle", 50)),
        (QUIET, QUIET, MINUTE, (None, None)),
        (QUIET, replace(QUIET, pinned=5), MINUTE, ("idle", 50)),
        (UNDECIDED, PASSED, MINUTE, (None, None)),
        (UNDECIDED, PASSED, HOUR, ("max-wait", 50)),  # what is undecided comes after it
        (QUIET, None, HOUR - 1, (None, None)),
        (QUIET, None, HOUR, ("max-wait", 50)),
        (replace(PASSED, first=55), None, 0, (None, None)),  # beyond what was seen of the log
    ],
)
def test_the_rules(observation: Observation, other: Observation | None, after: int, expected: tuple[Any, Any]) -> None:
    assert answer(observation, other, now=T + after) == expected


def test_with_allowed_lateness_the_boundary_is_the_first_record_all_the_same() -> None:
    waiting = replace(PASSED, passed=False)
    assert answer(waiting, rules=LATE) == (None, None)
    assert answer(waiting, PASSED, LATE, T + 5 * MINUTE - 1) == (None, None), "nobody is idle while late ones may come"
    assert answer(waiting, PASSED, LATE, T + 5 * MINUTE) == ("idle", 40)
    assert answer(waiting, rules=LATE, now=T + HOUR) == ("max-wait", 40)
    assert answer(PASSED, rules=LATE) == ("watermark", 40)


def test_an_open_partition_tells_what_it_waits_for_and_when_the_clock_will_do() -> None:
    decisions = evaluate(T, {A: QUIET, B: UNDECIDED}, RULES, T + SECOND)
    assert "no record" in decisions[A].reason
    assert "open transaction" in decisions[B].reason
    assert "high watermark 60" in decisions[B].reason
    assert [decision.retry_at for decision in decisions.values()] == [T + HOUR, T + HOUR]
    assert evaluate(T, {A: QUIET, B: PASSED}, RULES, T + SECOND)[A].retry_at == T + MINUTE
    told = evaluate(T, {A: replace(QUIET, ahead=(12, T + 9 * HOUR))}, RULES, T + SECOND)[A].reason
    assert "offset 12" in told


@given(
    stable=st.integers(0, 20),
    undecided=st.integers(0, 3),
    records=st.lists(st.integers(0, 40), max_size=20),
    order=st.permutations(range(8)),
    lateness=st.integers(0, 5),
)
def test_boundaries_ascend_whatever_is_pinned_first(
    stable: int, undecided: int, records: list[int], order: list[int], lateness: int
) -> None:
    """Records with any times in any order; boundaries at 0, 5, 10 … are pinned one after the other while it grows."""
    rules = IntervalRules(
        allowed_lateness=timedelta(milliseconds=lateness),
        idle_after=timedelta(milliseconds=lateness),
        max_wait=timedelta(milliseconds=10),
    )
    pinned: dict[int, int] = {}
    for step, number in enumerate(order):
        time, now = number * 5, 30 + step
        log = records[: stable + 2 * step]
        end = max(0, len(log) - undecided)

        def first(at: int, log: list[int] = log, end: int = end) -> int | None:
            return next((offset for offset, of_one in enumerate(log[:end]) if of_one >= at), None)

        earlier = [offset for at, offset in sorted(pinned.items()) if at < time]
        later = [offset for at, offset in sorted(pinned.items()) if at > time]
        observation = Observation(
            last_stable=end,
            high_watermark=len(log),
            floor=earlier[-1] if earlier else 0,
            ceiling=later[0] if later else None,
            first=first(time),
            passed=first(time + lateness) is not None,
        )
        decision = evaluate(time, {A: observation}, rules, now)[A]
        if decision.offset is None:
            assert time + 10 > now
            continue
        assert decision.offset <= end
        pinned[time] = decision.offset
        offsets = [offset for _, offset in sorted(pinned.items())]
        assert offsets == sorted(offsets)
        if decision.rule == "watermark" and observation.floor <= (observation.first or 0):
            assert log[decision.offset] >= time
            assert all(of_one < time for of_one in log[: decision.offset])
