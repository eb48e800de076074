"""A seed gives the same actions each time, and another seed gives others."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from fault_suite import brokers, drivers, executors, letters, people, stores
from fault_suite.schedule import Lane

LANES = [lane for profile in (drivers, brokers, executors, stores, people) for lane in profile.LANES]


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_the_seed_decides(lane: Lane) -> None:
    def actions(seed: int) -> list[object]:
        return list(islice(lane.actions(seed), 50))

    assert actions(7) == actions(7) != actions(8)


def test_every_kind_of_interruption_comes_up() -> None:
    kinds = {action.interruption.kind for action in islice(drivers.LANES[0].actions(1), 200) if action.interruption}
    assert kinds == {f"{how} at a {when}" for how in ("killed", "suspended") for when in ("step", "random time")}


@pytest.mark.parametrize("seed", range(20))
def test_a_short_run_of_people_has_every_class(seed: int) -> None:
    first = [action.what for action in islice(people.LANES[0].actions(seed), len(people.HANDS))]
    assert sorted(first) == sorted(people.HANDS)
    begun = first[: len(people.CLASSES)]
    assert [sum(what in members for what in begun) for members in people.CLASSES] == [1] * len(people.CLASSES)


@pytest.mark.parametrize("seed", range(20))
def test_each_round_has_each_action_as_often_as_it_weighs(seed: int) -> None:
    size = int(sum(letters.LANE.weights.values()))
    actions = [action.what for action in islice(letters.LANE.actions(seed), 2 * size)]
    for done in (Counter(actions[:size]), Counter(actions[size:])):
        assert done == letters.LANE.weights
