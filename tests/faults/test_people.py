"""Other people's hands on tables, group and ledger: a job goes on rightly, or a command of its refusal leads out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fault_suite import people
from skips import full_scale_only


@full_scale_only
@pytest.mark.slow
def test_people(suite: Callable[..., Any], kafka: Any, tmp_path: Path, seconds: float) -> None:
    hands = people.People(tmp_path / "copies", kafka.broker).perform
    whole = seconds >= people.ROUND_SECONDS
    world = suite(
        kafka.bootstrap_servers,
        people.LANES,
        hands,
        led_out=people.LED_OUT,
        watched=False,
        source={"on_data_loss": "record"},
        reached=lambda world: not (whole and people.not_reached(world.outcomes)),
    )
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
    if whole:
        assert people.not_reached(world.outcomes) == []
