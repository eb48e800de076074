"""Drivers that die and sleep while others work: the next ones end what they leave, and every record lands once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fault_suite import drivers


@pytest.mark.slow
def test_drivers(suite: Callable[..., Any], kafka: Any, scale: Callable[[Any, Any], Any]) -> None:
    """In every run of the tests for some seconds, with one job and a fixed seed."""
    lanes = scale(drivers.LANES[:2], drivers.LANES)
    world = suite(kafka.bootstrap_servers, lanes, drivers.PERFORM, allowed=drivers.ALLOWED)
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
