"""`remote="sc://…"` on a real Spark Connect server: a thin driver here, the work there, both ended with the task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_process import wait_for
from connect_cluster import ConnectCluster
from gated import Gated, gated_dag
from kseg_airflow.processes import session_members
from skips import full_scale_only

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

pytestmark = full_scale_only


@pytest.fixture
def server(kseg: Kseg, lake: Path) -> Iterator[ConnectCluster]:
    server = ConnectCluster(kseg, lake)
    yield server
    server.stop()


def nobody_stands_at_the_gate(task: Gated) -> bool:
    """A task that stands there says so again and again."""
    sign = task.folder / "gate-reached"
    sign.unlink(missing_ok=True)
    time.sleep(2)
    return not sign.exists()


def test_a_connect_servers_work_ends_with_the_task_and_the_next_one_lands_it(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, lake: Path, server: ConnectCluster
) -> None:
    task = gated_dag(airflow, kseg, kafka, lake, "prov_connect", submit=f", remote={server.url!r}")
    task.trigger()
    task.reach()
    driver = task.driver()
    names = {process.name() for process in session_members(driver.session)}
    assert not names & {"java"}, "the driver is to need no Spark of its own"
    task.wait_until_watched()
    airflow.mark_task(task.name, task.run, "ingest", "failed")
    outcome = wait_for(driver.poll, "the driver has ended", timeout=120)
    assert outcome.killed
    wait_for(lambda: nobody_stands_at_the_gate(task), "the server has stopped its tasks")
    assert task.status()["leases"] == []
    task.gate.touch()
    airflow.clear(task.name, task.run, "ingest")
    airflow.wait_for_run(task.name, task.run, timeout=300)
    assert task.record().attempt == 2
    task.assert_landed_once()
