"""Drivers that die and sleep while others work: the next ones end what they leave, and every record lands once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fault_suite import drivers
from skips import full_scale_only


@full_scale_only
@pytest.mark.slow
def test_drivers(suite: Callable[..., Any], kafka: Any) -> None:
    world = suite(kafka.bootstrap_servers, drivers.LANES, drivers.PERFORM, allowed=drivers.ALLOWED)
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
