"""Drivers under a running Airflow: killed, cancelled, lost from sight, found again. Rows land once whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from airflow_process import wait_for
from gated import Gated, gated_dag
from kseg_airflow.assets import table_uri
from kseg_airflow.processes import session_members
from kseg_airflow.run_folder import DriverRecord, RunFolder

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg


@pytest.fixture
def gated(airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, lake: Path) -> Callable[..., Gated]:
    """Drivers that have no Spark to start, unless a test asks for `engine="spark"`: Airflow sees no difference."""
    return lambda name, deferrable, **more: gated_dag(
        airflow, kseg, kafka, lake, name, deferrable=deferrable, **({"engine": "local"} | more)
    )


def test_a_killed_driver_is_replaced_by_the_next_try_which_takes_the_run_up(
    gated: Callable[..., Gated],
) -> None:
    task = gated("prov_killed", True)
    old = RunFolder(task.folder / "runs" / "prov_killed" / "of-last-year" / "ingest")
    with old.locked():
        old.keep(DriverRecord(1, {"kind": "pause", "until": "2026-01-01T00:00:00+00:00"}, "asked", "", taken=True))
    os.utime(old.path / "record.json", (0, 0))
    driver = task.begin()
    told = driver.run_file()
    assert told is not None
    task.airflow.wait_for_task(task.name, task.run, "ingest", "deferred")
    assert not old.path.exists()
    os.kill(told["pid"], signal.SIGKILL)
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run)
    record = task.record()
    assert record.attempt == 2
    assert task.airflow.task(task.name, task.run, "ingest")["try_number"] == 2
    # Its lease had minutes to live: `kseg` takes that of a process of its own host that has ended.
    assert "holds its lease" not in task.airflow.log(task.name, task.run, "ingest")
    task.assert_landed_once()
    links = task.airflow.links(task.name, task.run, "ingest")
    assert str(links["Run report"]).endswith(f"try-{record.attempt}/report.html")
    assert str(links["Delta version"]).startswith(table_uri(str(task.folder / "table")))


def test_a_driver_whose_host_is_gone_is_waited_for_until_its_lease_ends(gated: Callable[..., Gated]) -> None:
    task = gated("prov_host_gone", True, lease="10s")
    driver = task.begin()
    task.airflow.wait_for_task(task.name, task.run, "ingest", "deferred")
    # What the next try sees: a driver of another host, of which nobody here can say that it is dead.
    gone = replace(driver, place="gone-host/boot/pid:[1]").to_json()
    folder = RunFolder(Path(driver.folder).parent)
    with folder.locked():
        folder.keep(replace(task.record(), handle=gone, drivers=[gone]))
        (folder.path / "alive").unlink()  # nor is the lock of another host's driver seen here
    # The triggerer sees its end by that of the shell above it; it renews its lease until the next try has met that.
    os.kill(driver.pid, signal.SIGKILL)
    task.airflow.wait_for_log(task.name, task.run, "ingest", "holds its lease")
    for process in session_members(driver.session):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run)
    assert "taking it over" not in task.airflow.log(task.name, task.run, "ingest")
    assert not task.record().taken_over
    task.assert_landed_once()


def test_a_cancelled_task_stops_its_driver_and_frees_the_lease_but_a_triggerers_end_does_not(
    gated: Callable[..., Gated],
) -> None:
    task = gated("prov_cancelled", True, engine="spark")
    driver = task.begin()
    task.airflow.wait_for_task(task.name, task.run, "ingest", "deferred")
    task.airflow.kill("triggerer")
    task.airflow.mark_task(task.name, task.run, "ingest", "failed")  # nobody is there to hear that
    task.airflow.restart("triggerer")
    # Cleared before the scheduler has ended the run for it, the task would be of a failed run, and never scheduled.
    task.airflow.wait_for_run(task.name, task.run, "failed")
    task.airflow.clear(task.name, task.run, "ingest")
    task.wait_until_watched()
    assert driver.alive()
    assert task.driver() == driver
    task.airflow.mark_task(task.name, task.run, "ingest", "failed")
    wait_for(lambda: driver.poll() is not None, "the driver has ended", timeout=300)
    wait_for(lambda: not session_members(driver.session), "all that it started has ended too", timeout=300)
    assert task.record().stopped
    assert task.status()["leases"] == []
    task.airflow.wait_for_run(task.name, task.run, "failed")
    task.gate.touch()
    task.airflow.clear(task.name, task.run, "ingest")
    task.airflow.wait_for_run(task.name, task.run)
    assert task.record().attempt == 2
    task.assert_landed_once()


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_task_whose_time_is_over_stops_its_driver(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, lake: Path, deferrable: bool
) -> None:
    """The driver stands at the gate, or is still on its way there: it goes in any case."""
    name = f"prov_overdue_{deferrable}"
    more = ", retries=0, execution_timeout=timedelta(seconds=8)"
    engine = "spark" if deferrable else "local"
    task = gated_dag(airflow, kseg, kafka, lake, name, deferrable=deferrable, engine=engine, submit=more)
    task.trigger()
    driver = task.driver()
    task.airflow.wait_for_run(task.name, task.run, "failed", timeout=300)
    outcome = wait_for(driver.poll, "the driver has ended", timeout=120)
    assert outcome.killed
    wait_for(lambda: not session_members(driver.session), "all that it started has ended too", timeout=60)
    assert task.record().stopped
    if (task.folder / "_ledger").exists():  # it may not even have come to that
        assert task.status()["leases"] == []


def test_a_killed_workers_driver_is_found_again_by_the_next_try(gated: Callable[..., Gated]) -> None:
    task = gated("prov_worker", False)
    driver = task.begin()
    task.airflow.kill_task(task.name, task.run, "ingest")
    task.airflow.wait_for_task(task.name, task.run, "ingest", "running", attempt=2)
    task.airflow.wait_for_log(task.name, task.run, "ingest", "Attached to the driver of a previous try", attempt=2)
    assert driver.alive()
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run)
    assert task.driver() == driver
    task.assert_landed_once()
