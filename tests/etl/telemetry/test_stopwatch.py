"""Phases do not count a moment twice."""

from __future__ import annotations

import time

from kseg.etl.telemetry.stopwatch import Stopwatch


def test_a_phase_within_another_is_counted_once() -> None:
    watch = Stopwatch()
    with watch.phase("land"):
        for _ in range(2):
            with watch.phase("spark"):
                time.sleep(0.1)
        time.sleep(0.05)
    seconds = watch.seconds()
    assert seconds["spark"] >= 0.2
    assert seconds["land"] >= 0.05
    assert seconds["land"] + seconds["spark"] <= seconds["total"]
