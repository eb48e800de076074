"""A seed gives the same actions each time, and another seed gives others."""

from __future__ import annotations

from itertools import islice

import pytest

from fault_suite import brokers, drivers, executors, people, stores
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
