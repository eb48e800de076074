"""submit="spark-submit" on a real YARN, in cluster mode: the driver is a container there, found by its application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_process import wait_for
from gated import Gated, gated_dag
from kseg_airflow.drivers.yarn import YarnDriver
from skips import full_scale_only
from yarn_cluster import YarnCluster

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

pytestmark = full_scale_only

_PACKED = {"py_files": "--py-files", "jars": "--jars"}


@pytest.fixture(scope="module")
def yarn(kseg: Kseg) -> Iterator[YarnCluster]:
    cluster = YarnCluster(kseg)
    yield cluster
    cluster.stop()


def gated_on_yarn(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, folder: Path, yarn: YarnCluster, name: str, **more: Any
) -> Gated:
    """A gated DAG whose driver YARN runs, with what `kseg package` packs for containers that lack it."""

    def submit(job: Path) -> str:
        packed = kseg.json("package", "--out", folder / "dist", "--job", job)["spark_submit"]["cluster"]
        options: dict[str, Any] = {
            name: packed[packed.index(f"--{name.replace('_', '-')}") + 1] for name in ("py_files", "jars")
        }
        # spark-submit would hand the path of this process on: then containers would find what they have to be given.
        options |= {"conf": yarn.conf, "env_vars": {"PYTHONPATH": ""}}
        return f""", submit="spark-submit", spark_conn_id="kseg_yarn", submit_options={options}"""

    extra = {
        "deploy-mode": "cluster",
        "spark-binary": "spark-submit",
        "yarn_resourcemanager_webapp_address": yarn.url,
    }
    airflow.connection("kseg_yarn", "spark", host="yarn", extra=extra)
    return gated_dag(airflow, kseg, kafka, folder, name, submit=submit, env={"HADOOP_CONF_DIR": yarn.conf_dir}, **more)


@pytest.fixture
def gated(
    airflow: RunningAirflow, kseg: Kseg, kafka: KafkaProcess, lake: Path, yarn: YarnCluster
) -> Callable[..., Gated]:
    return lambda name, **more: gated_on_yarn(airflow, kseg, kafka, lake, yarn, name, **more)


def driver_of(task: Gated) -> YarnDriver:
    """The last driver, known to YARN."""
    driver = YarnDriver(**task.record().handle)
    wait_for(driver.found, "YARN knows the application", timeout=120)
    return driver


def ended_as(yarn: YarnCluster, task: Gated, state: str) -> None:
    """Wait until YARN says so of the application of the last driver."""
    application = driver_of(task).application_id
    assert application is not None
    wait_for(lambda: yarn.application(application)["state"] == state, f"{application} is {state}", timeout=120)


def test_its_application_is_watched_again_after_triggerer_and_scheduler_have_died_and_lands_once(
    gated: Callable[..., Gated], yarn: YarnCluster
) -> None:
    before = yarn.applications()
    task = gated("prov_yarn")
    task.trigger()
    task.reach()
    task.airflow.wait_for_task(task.name, task.run, "ingest", "deferred")
    [application] = yarn.applications()[len(before) :]
    task.airflow.kill("triggerer")
    task.airflow.kill("scheduler")
    task.airflow.restart("scheduler")
    task.airflow.restart("triggerer")
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run, timeout=300)
    assert driver_of(task).application_id == application["id"]
    [application] = yarn.applications()[len(before) :]
    assert application["finalStatus"] == "SUCCEEDED"
    task.assert_landed_once()
    assert driver_of(task).is_owner(task.status()["runs"][0]["owner"])
    assert f"{yarn.url}/cluster/app/{application['id']}" in task.airflow.log(task.name, task.run, "ingest")


def test_a_worker_that_dies_while_spark_submit_works_leaves_an_application_that_the_next_try_finds(
    gated: Callable[..., Gated], yarn: YarnCluster
) -> None:
    before = yarn.applications()
    task = gated("prov_yarn_worker", deferrable=False)
    task.trigger()
    task.airflow.kill_task(task.name, task.run, "ingest")
    assert len(yarn.applications()) == len(before)
    task.airflow.wait_for_task(task.name, task.run, "ingest", "running", attempt=2)
    task.reach()
    [application] = yarn.applications()[len(before) :]
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run, timeout=300)
    assert "Attached to the driver of a previous try" in task.airflow.log(task.name, task.run, "ingest")
    assert [app["id"] for app in yarn.applications()[len(before) :]] == [application["id"]]
    assert (task.record().attempt, driver_of(task).application_id) == (1, application["id"])
    task.assert_landed_once()


def test_a_cleared_task_follows_its_application_and_a_person_who_fails_it_kills_that_and_the_next_one_lands_the_run(
    gated: Callable[..., Gated], yarn: YarnCluster
) -> None:
    before = yarn.applications()
    task = gated("prov_yarn_stopped")
    task.trigger()
    task.reach()
    task.wait_until_watched()
    [planned] = task.status()["runs"]
    driver = task.record().handle

    with task.airflow.suspended(
        "triggerer"
    ):  # it would stop the driver if it heard of the clear before the new attempt
        task.airflow.clear(task.name, task.run, "ingest")
        task.airflow.wait_for_log(task.name, task.run, "ingest", "Attached to the driver of a previous try", attempt=2)
    task.airflow.wait_for_task(task.name, task.run, "ingest", "deferred", attempt=2)
    task.wait_until_watched()
    assert task.record().handle == driver
    task.airflow.mark_task(task.name, task.run, "ingest", "failed")
    ended_as(yarn, task, "KILLED")
    task.airflow.wait_for_run(task.name, task.run, "failed")

    task.gate.touch()
    task.airflow.clear(task.name, task.run, "ingest")
    task.airflow.wait_for_run(task.name, task.run, timeout=300)
    states = [app["state"] for app in yarn.applications()[len(before) :]]
    assert (states[0], states[-1]) == ("KILLED", "FINISHED")
    task.assert_landed_once()
    assert task.status()["runs"][0]["run_id"] == planned["run_id"]


def test_what_yarn_says_of_an_application_that_it_killed_or_that_failed_stands_in_the_tasks_log(
    gated: Callable[..., Gated], yarn: YarnCluster
) -> None:
    before = yarn.applications()
    task = gated("prov_yarn_killed")
    task.trigger()
    task.reach()
    yarn.kill_application(yarn.applications()[-1]["id"])
    wait_for(lambda: task.record().attempt > 1, "another driver was started", timeout=180)
    task.gate.touch()
    task.airflow.wait_for_run(task.name, task.run, timeout=300)
    killed, *_, last = yarn.applications()[len(before) :]
    assert (killed["state"], last["finalStatus"]) == ("KILLED", "SUCCEEDED")
    told = task.airflow.log(task.name, task.run, "ingest", 1)
    assert killed["id"] in told
    assert killed["diagnostics"].strip() in told
    task.assert_landed_once()

    job = task.folder / "job.yaml"
    job.write_text(job.read_text().replace("arrow:", "arow:"))
    task.trigger()
    task.airflow.wait_for_run(task.name, task.run, "failed", timeout=300)
    failed = yarn.applications()[-1]
    assert failed["finalStatus"] == "FAILED"
    told = task.airflow.log(task.name, task.run, "ingest")
    # YARN's own number is that of Spark's application master, 13.
    assert "kseg ingest job.yaml: exit 2" in told
    assert failed["diagnostics"].partition("\n")[0] in told
    assert failed["amContainerLogs"] in told
    # A faulty job file is no better the next time.
    assert task.airflow.task(task.name, task.run, "ingest")["try_number"] == 1
