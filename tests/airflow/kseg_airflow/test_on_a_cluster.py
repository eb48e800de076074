"""submit="spark-submit" on a real standalone cluster: the driver is its application, lands, and ends when stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_process import wait_for
from gated import Gated, gated_dag
from kseg_airflow.processes import session_members
from skips import full_scale_only
from spark_cluster import SparkCluster

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

pytestmark = full_scale_only

SUBMIT = """, submit="spark-submit", spark_conn_id="kseg_cluster",
    submit_options={"conf": {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}}"""


@pytest.fixture
def cluster(kseg: Kseg, lake: Path) -> Iterator[SparkCluster]:
    cluster = SparkCluster(kseg, lake)
    yield cluster
    cluster.stop()


def stop_in_its_midst(task: Gated) -> None:
    """A person says that the task has failed: nothing is left of the driver, its JVM, its lease."""
    task.wait_until_watched()
    driver = task.driver()
    task.airflow.mark_task(task.name, task.run, "ingest", "failed")
    outcome = wait_for(driver.poll, "the driver has ended", timeout=120)
    assert outcome.killed
    wait_for(lambda: not session_members(driver.session), "its JVM has ended too", timeout=60)
    assert task.status()["leases"] == []


def test_it_is_an_application_of_the_cluster_lands_once_and_ends_when_stopped_even_without_a_master(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, lake: Path, cluster: SparkCluster
) -> None:
    host, _, port = cluster.url.rpartition(":")
    extra = {"deploy-mode": "client", "spark-binary": "spark-submit"}
    airflow.connection("kseg_cluster", "spark", host=host, port=int(port), extra=extra)
    task = gated_dag(airflow, kseg, kafka, lake, "prov_cluster", submit=SUBMIT)

    driver = task.begin()
    told = driver.run_file()
    assert told is not None
    assert cluster.applications("active") == [told["spark"]["application_id"]]
    stop_in_its_midst(task)
    wait_for(lambda: not cluster.applications("active"), "the cluster lets the application go")

    task.gate.touch()
    airflow.clear(task.name, task.run, "ingest")
    airflow.wait_for_run(task.name, task.run, timeout=300)
    assert task.record().attempt == 2
    task.assert_landed_once()
    wait_for(lambda: len(cluster.applications("completed")) == 2, "both applications are over")

    task.gate.unlink()
    kafka.produce(task.topic, [{"value": "one more"}])
    task.begin()
    cluster.kill("master")
    stop_in_its_midst(task)
