"""One moment for all that a run waits for."""

from __future__ import annotations

from datetime import timedelta

from kseg.etl.run.deadline import RunDeadline


def test_what_waits_later_has_less_time_left() -> None:
    run = RunDeadline(timedelta(hours=1))
    first = run.left()
    second = run.left()
    assert timedelta(minutes=59) < second < first <= timedelta(hours=1)
    assert not run.passed


def test_nothing_is_left_once_it_has_passed() -> None:
    run = RunDeadline(timedelta(0))
    assert run.left() == timedelta(0)
    assert run.passed
