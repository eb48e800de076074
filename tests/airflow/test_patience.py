"""Waits end after some seconds of a quiet machine, and later on a busy one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from airflow_process import wait_for
from patience import Patience


@pytest.fixture
def seconds_until_over(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], int]:
    """How many seconds a patience of 100 lasts on two cores, under a load."""

    def count(load: float) -> int:
        now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        patience = Patience(100)
        while not patience.over():
            now += 1
        return int(now)

    return count


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 101), (2.0, 101), (4.0, 201), (10.0, 501)])
def test_it_lasts_as_long_as_the_machine_takes(
    seconds_until_over: Callable[[float], int], load: float, seconds: int
) -> None:
    assert abs(seconds_until_over(load) - seconds) <= 1


def test_a_wait_in_vain_ends_and_says_for_what() -> None:
    with pytest.raises(TimeoutError, match="in vain, 0 s of a quiet machine: the sea"):
        wait_for(lambda: False, "the sea", timeout=0)
