"""submit="livy" on a real Livy in front of a real cluster: found again, stopped, taken up, and what a failure says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from airflow_process import wait_for
from gated import Gated, gated_dag
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.submit.spark_submit import APPLICATION
from livy_cluster import LivyServer
from skips import full_scale_only
from spark_cluster import SparkCluster

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

pytestmark = [
    full_scale_only,
    pytest.mark.timeout(1800),
]

SUBMIT = f""", submit="livy", spark_conn_id="kseg_livy", submit_options={{
    "file": {APPLICATION.resolve().as_uri()!r},
    "conf": {{"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}}}}"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each test's job, from which drivers and executors import its step."""
    return {name: tmp_path_factory.mktemp(name) for name in ("deferred", "worker", "failing")}


@pytest.fixture(scope="module")
def cluster(kseg: Kseg, folders: dict[str, Path]) -> Iterator[SparkCluster]:
    cluster = SparkCluster(kseg, *folders.values())
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def livy(
    kseg: Kseg, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, cluster: SparkCluster
) -> Iterator[LivyServer]:
    livy = LivyServer(kseg, cluster.url, tmp_path_factory.mktemp("livy"), *folders.values())
    yield livy
    livy.stop()


@pytest.fixture(autouse=True)
def connection(airflow: RunningAirflow, livy: LivyServer) -> None:
    airflow.connection("kseg_livy", "livy", host="127.0.0.1", port=livy.port)


def drivers(livy: LivyServer) -> list[str]:
    """What Livy has started and is alive: spark-submit's JVM, the driver, its workers."""
    session = os.getsid(livy.pid)
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != livy.pid and os.getsid(process.pid) == session:
                found.append(" ".join(process.cmdline()))
        except (ProcessLookupError, psutil.Error):
            continue
    return found


def batches(livy: LivyServer, name: str) -> list[tuple[int, str, str]]:
    """Those of one DAG: id, name, state."""
    told = sorted(livy.batches(), key=lambda batch: int(batch["id"]))
    return [(batch["id"], batch["name"], batch["state"]) for batch in told if batch["name"].startswith(f"{name}.")]


def recorded(task: Gated, state: str) -> tuple[Any, Any, str]:
    handle = task.record().handle
    return handle["batch_id"], handle["name"], state


def test_a_batch_is_found_again_stopped_with_its_task_and_taken_up_by_the_next(
    airflow: RunningAirflow,
    kseg: Kseg,
    kafka: KafkaProcess,
    folders: dict[str, Path],
    cluster: SparkCluster,
    livy: LivyServer,
) -> None:
    task = gated_dag(airflow, kseg, kafka, folders["deferred"], "prov_livy", submit=SUBMIT)
    task.trigger()
    task.reach()
    first = recorded(task, "running")
    assert batches(livy, task.name) == [first]
    assert len(cluster.applications("active")) == 1
    task.wait_until_watched()
    airflow.mark_task(task.name, task.run, "ingest", "failed")
    wait_for(lambda: batches(livy, task.name) == [], "the batch is deleted")
    wait_for(lambda: drivers(livy) == [], "its driver has ended")
    wait_for(lambda: not cluster.applications("active"), "the cluster lets the application go")
    assert task.record().stopped
    assert task.status()["leases"] == []

    airflow.clear(task.name, task.run, "ingest")
    task.reach()
    airflow.wait_for_task(task.name, task.run, "ingest", "deferred")
    second = recorded(task, "running")
    assert batches(livy, task.name) == [second]
    assert second[1] != first[1]
    airflow.kill("triggerer")
    task.gate.touch()
    wait_for(lambda: batches(livy, task.name)[0][2] == "success", "it ends while nobody looks", timeout=300)
    airflow.restart("triggerer")
    airflow.wait_for_run(task.name, task.run, timeout=300)
    assert batches(livy, task.name) == [recorded(task, "success")]
    assert handle_of(task.record().handle).is_owner(task.status()["runs"][0]["owner"])
    task.assert_landed_once()


def test_a_killed_workers_batch_is_found_again_by_the_next_try(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, folders: dict[str, Path], livy: LivyServer
) -> None:
    task = gated_dag(airflow, kseg, kafka, folders["worker"], "prov_livy_worker", deferrable=False, submit=SUBMIT)
    task.trigger()
    task.reach()
    airflow.kill_task(task.name, task.run, "ingest")
    airflow.wait_for_task(task.name, task.run, "ingest", "running", attempt=2)
    airflow.wait_for_log(task.name, task.run, "ingest", "Attached to the driver of a previous try", attempt=2)
    assert batches(livy, task.name) == [recorded(task, "running")]
    task.gate.touch()
    airflow.wait_for_run(task.name, task.run, timeout=300)
    assert batches(livy, task.name) == [recorded(task, "success")]
    task.assert_landed_once()


def test_a_failing_batch_shows_its_last_lines_in_the_tasks_log(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, folders: dict[str, Path], livy: LivyServer
) -> None:
    task = gated_dag(airflow, kseg, kafka, folders["failing"], "prov_livy_fails", submit=SUBMIT)
    (task.folder / f"{task.name}_gate.py").write_text("def wait(batch):\n    raise ValueError('no such colour')\n")
    task.trigger()
    airflow.wait_for_run(task.name, task.run, "failed", timeout=300)
    assert batches(livy, task.name) == [recorded(task, "dead")]
    log = airflow.log(task.name, task.run, "ingest", 1)
    assert "ValueError: no such colour" in log
    assert "Connected to Spark cluster with app ID" in log
    assert f"Livy batch {task.record().handle['batch_id']}: dead" in log
