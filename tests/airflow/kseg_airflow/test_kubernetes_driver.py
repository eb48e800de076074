"""What a driver in a pod makes of what the API server documents: no Kubernetes runs here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_process import wait_for
from answering import Cluster
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.kubernetes import KubernetesDriver
from kseg_airflow.drivers.local import start
from kseg_airflow.outcomes import Look, Outcome, worth_a_retry


@pytest.fixture
def server() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.stop()


POD = "kseg-ab12-driver"
PATH = f"/api/v1/namespaces/etl/pods/{POD}"
OWNER = f"{POD}:1:ab12"


@pytest.fixture
def known(server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG tells of the server."""
    pytest.importorskip("kubernetes")
    config = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "contexts": [context],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(config))


def submitted(folder: Path, script: str, tag: str | None = None) -> KubernetesDriver:
    """The driver of a spark-submit that does this."""
    folder = folder / "task" / "try-1"
    folder.mkdir(parents=True)
    submission = start(["/bin/sh", "-c", script], folder, env=dict(os.environ))
    driver = handle_of(KubernetesDriver(submission.to_json(), POD, "etl", tag=tag).to_json())
    assert isinstance(driver, KubernetesDriver)
    return driver


@pytest.mark.usefixtures("known")
def test_kubernetes_is_asked_for_the_drivers_pod(server: Cluster, tmp_path: Path) -> None:
    from kubernetes.client import Configuration

    driver = submitted(tmp_path, "true")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    before = Configuration.get_default_copy().host
    for phase in ("Pending", "Running"):
        server.answers[f"GET {PATH}"] = pod(phase)
        assert driver.poll() is None
    assert driver.is_owner(OWNER)
    assert not driver.proven_dead(OWNER)
    server.answers[f"GET {PATH}"] = pod("Failed", 4)
    assert driver.poll() == Outcome(4, None, f"pod {POD}: Error")
    assert driver.proven_dead(OWNER)
    server.answers[f"GET {PATH}"] = pod("Succeeded", 0)
    assert driver.poll() == Outcome(0)
    del server.answers[f"GET {PATH}"]
    outcome = driver.poll()
    assert outcome is not None
    assert outcome.killed
    for status in (401, 503):
        server.answers[f"GET {PATH}"] = status, {}
        with pytest.raises(OSError, match=str(status)):
            driver.poll()
    server.stop()
    with pytest.raises(OSError, match="does not respond"):
        driver.poll()
    assert Configuration.get_default_copy().host == before, "other triggers' clients would ask our server"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("driver_container", ["spark-kubernetes-driver", "etl"])
def test_a_pod_with_sidecars_is_judged_by_the_drivers_container(
    server: Cluster, tmp_path: Path, driver_container: str
) -> None:
    """A sidecar's exit code 0 was the driver's, and while a sidecar ran, so did the task."""
    driver = replace(submitted(tmp_path, "true"), container=driver_container)
    wait_for(driver.submitter.poll, "the end of spark-submit")

    def outcome(phase: str, code: int | None, sidecar: int | None) -> Outcome | None:
        statuses = [_ended("fluent-bit", sidecar), _ended(driver_container, code), _ended("istio-proxy", sidecar)]
        server.answers[f"GET {PATH}"] = pod(phase, containerStatuses=statuses)
        return driver.poll()

    assert outcome("Failed", 1, 0) == Outcome(1, None, f"pod {POD}: Error")
    assert outcome("Failed", 4, 143) == Outcome(4, None, f"pod {POD}: Error")
    assert outcome("Running", None, None) is None
    assert outcome("Running", None, 1) is None
    assert outcome("Running", 0, None) == Outcome(0)
    assert outcome("Running", 3, None) == Outcome(3, None, f"pod {POD}: Error")
    failed = outcome("Failed", 0, 143)
    assert failed is not None
    assert failed.exit_code is None, "a failed pod is no success; the ledger tells whether its driver has landed"
    server.answers[f"GET {PATH}/log"] = 200, "land\n"
    assert driver.log_lines()[0] == ["land"]
    assert any(f"container={driver_container}" in query for query in server.queries)


@pytest.mark.usefixtures("known")
def test_a_failed_pod_without_a_container_of_the_drivers_name_has_the_code_of_the_first_that_failed(
    server: Cluster, tmp_path: Path
) -> None:
    """A pod template may name the driver's container."""
    driver = submitted(tmp_path, "true")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    server.answers[f"GET {PATH}"] = pod("Failed", containerStatuses=[_ended("fluent-bit", 0), _ended("etl", 2)])
    assert driver.poll() == Outcome(2, None, f"pod {POD}: Error")
    server.answers[f"GET {PATH}"] = pod("Running", containerStatuses=[_ended("fluent-bit", 1), _ended("etl", None)])
    assert driver.poll() is None


@pytest.mark.usefixtures("known")
def test_a_pod_is_found_although_spark_submit_was_killed_before_it_said_a_word(server: Cluster, tmp_path: Path) -> None:
    driver = submitted(tmp_path, "exec sleep 600")
    try:
        assert driver.poll() is None
        assert driver.found() is None
        server.answers[f"GET {PATH}"] = pod("Running")
        assert driver.found() == POD
    finally:
        driver.submitter.stop(0)
    assert driver.poll() is None
    server.answers[f"GET {PATH}"] = pod("Succeeded", 0)
    assert driver.poll() == Outcome(0)


@pytest.mark.usefixtures("known")
def test_a_submission_that_fails_before_there_is_a_pod_is_tried_again(tmp_path: Path) -> None:
    driver = submitted(tmp_path, "exit 1")
    outcome = wait_for(driver.poll, "the end of spark-submit")
    assert worth_a_retry(outcome)
    assert "spark-submit ended with exit code 1" in outcome.error["message"]


@pytest.mark.usefixtures("known")
def test_stopping_deletes_the_pod_with_the_time_that_it_has(server: Cluster, tmp_path: Path) -> None:
    driver = submitted(tmp_path, "true")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    server.answers |= {f"GET {PATH}": pod("Running"), f"DELETE {PATH}": pod("Running")}
    assert not driver.stop(0)
    assert f"DELETE {PATH}" in [request for request, _ in server.asked]
    assert "gracePeriodSeconds=0" in server.queries
    server.answers.pop(f"GET {PATH}")
    assert driver.stop(0)


@pytest.mark.usefixtures("known")
def test_the_pod_of_the_last_run_of_this_name_is_not_this_ones(server: Cluster, tmp_path: Path) -> None:
    """`conf` may name the pod. The last run's had succeeded, and so had this run, before its own was there."""
    script = f"while [ ! -e {tmp_path}/submitted ]; do sleep 0.05; done"
    driver = submitted(tmp_path, script, tag="kseg-this")
    server.answers |= {
        f"GET {PATH}": pod("Succeeded", 0, labels={"kseg-driver": "kseg-last"}),
        f"DELETE {PATH}": pod("Running"),
    }
    assert (driver.poll(), driver.found()) == (None, None)
    (tmp_path / "submitted").touch()
    wait_for(driver.submitter.poll, "the end of spark-submit")
    server.answers[f"GET {PATH}"] = pod("Running", labels={"kseg-driver": "kseg-this"})
    assert driver.poll() is None
    server.answers[f"GET {PATH}"] = pod("Running", labels={"kseg-driver": "kseg-next"})
    outcome = driver.poll()
    assert outcome is not None
    assert outcome.killed
    assert driver.stop(0)
    assert f"DELETE {PATH}" not in [request for request, _ in server.asked]


@pytest.mark.usefixtures("known")
def test_why_a_pod_does_not_start_is_told(server: Cluster, tmp_path: Path) -> None:
    driver = submitted(tmp_path, "true")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: memory"}
    server.answers[f"GET {PATH}"] = pod("Pending", conditions=[condition])
    assert driver.look().progress == f"pod {POD} is Pending: Unschedulable: 0/3 nodes: memory"
    waiting = _container({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    server.answers[f"GET {PATH}"] = pod("Pending", containerStatuses=[waiting])
    assert driver.look().progress == f"pod {POD} is Pending: ImagePullBackOff: no such image"
    server.answers[f"GET {PATH}"] = pod("Running")
    before = len(server.asked)
    assert driver.look() == Look(None, f"pod {POD} is Running")
    assert len(server.asked) == before + 1


@pytest.mark.usefixtures("known")
def test_the_pods_log_follows_spark_submits(server: Cluster, tmp_path: Path) -> None:
    driver = submitted(tmp_path, "echo submitting >&2")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    assert driver.log_lines()[0] == ["submitting"]
    server.answers |= {f"GET {PATH}": pod("Succeeded", 0), f"GET {PATH}/log": (200, "plan\nland\n")}
    assert driver.log_lines()[0] == ["submitting", "plan", "land"]


def test_an_api_server_that_nobody_names_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kubernetes")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    driver = submitted(tmp_path, "true")
    wait_for(driver.submitter.poll, "the end of spark-submit")
    with pytest.raises(OSError, match="address is not configured"):
        driver.poll()


def pod(phase: str, code: int | None = None, labels: Any = None, **status: Any) -> tuple[int, Any]:
    statuses = [] if code is None else [_ended("spark-kubernetes-driver", code)]
    told = {"phase": phase, "containerStatuses": statuses} | status
    return 200, {"metadata": {"name": "p", "labels": labels}, "status": told}


def _ended(name: str, code: int | None) -> dict[str, Any]:
    """The status of a container that has ended with this code; None: that runs."""
    return _container({"running": {}} if code is None else {"terminated": {"exitCode": code, "reason": "Error"}}, name)


def _container(state: Any, name: str = "spark-kubernetes-driver") -> dict[str, Any]:
    return {"name": name, "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}
