"""What a driver in a pod makes of what the API server documents: no Kubernetes runs here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_process import wait_for
from answering import Cluster

from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.drivers.kubernetes import KubernetesDriver
from kseg_airflow.drivers.local import start
from kseg_airflow.outcomes import Outcome


@pytest.fixture
def server() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.stop()


@pytest.mark.parametrize(
    "log",
    [
        "LoggingPodStatusWatcherImpl: State changed, new state: \n\t pod name: kseg-ab12-driver\n\t namespace: etl",
        "INFO LoggingPodStatusWatcherImpl: Deployed Spark application kseg with application ID spark-1 and "
        "submission ID etl:kseg-ab12-driver into Kubernetes",
    ],
)
def test_kubernetes_is_asked_for_the_drivers_pod(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
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
    folder = tmp_path / "task" / "try-1"
    folder.mkdir(parents=True)
    submission = start(["/bin/sh", "-c", f"echo '{log}' >&2"], folder, env=dict(os.environ))
    driver = handle_of(KubernetesDriver(submission.to_json(), "etl").to_json())
    assert isinstance(driver, KubernetesDriver)
    wait_for(lambda: driver.pod, "the pod's name")
    path = "/api/v1/namespaces/etl/pods/kseg-ab12-driver"

    def pod(phase: str, code: int | None = None) -> tuple[int, Any]:
        ended = {"terminated": {"exitCode": code, "reason": "Error"}}
        statuses = [] if code is None else [_container(ended)]
        return 200, {"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": statuses}}

    for phase in ("Pending", "Running"):
        server.answers[f"GET {path}"] = pod(phase)
        assert driver.poll() is None
    assert driver.is_owner("kseg-ab12-driver:1:ab12")
    assert not driver.proven_dead("kseg-ab12-driver:1:ab12")
    server.answers[f"GET {path}"] = pod("Failed", 4)
    assert driver.poll() == Outcome(4, None, "pod kseg-ab12-driver: Error")
    assert driver.proven_dead("kseg-ab12-driver:1:ab12")
    server.answers[f"GET {path}"] = pod("Succeeded", 0)
    assert driver.poll() == Outcome(0)
    del server.answers[f"GET {path}"]
    outcome = driver.poll()
    assert outcome is not None
    assert outcome.killed
    for status in (401, 503):
        server.answers[f"GET {path}"] = status, {}
        with pytest.raises(OSError, match=str(status)):
            driver.poll()
    server.stop()
    with pytest.raises(OSError, match="does not answer"):
        driver.poll()


def _container(state: Any) -> dict[str, Any]:
    named = {"name": "spark", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
    return {**named, "state": state}
