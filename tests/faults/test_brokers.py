"""Brokers that die, sleep and restart under runs: nothing that a producer was acknowledged is missing from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fault_suite import brokers, lost_logs
from skips import full_scale_only


@full_scale_only
@pytest.mark.slow
def test_brokers(suite: Callable[..., Any], kafka3: Any) -> None:
    performed = brokers.Brokers(kafka3.broker).perform
    world = suite(
        kafka3.bootstrap_servers,
        brokers.LANES,
        performed,
        allowed=brokers.ALLOWED,
        led_out=lost_logs.REFUSED,
        replication=3,
        # Administrators delete and compact records, and change the policy back.
        source={"on_data_loss": "record", "on_gap": "record"},
    )
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
