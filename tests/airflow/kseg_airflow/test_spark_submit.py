"""Ways to start a driver: what cannot be submitted is refused before anything is started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_process import wait_for
from kseg_airflow.compat import AirflowFailException
from kseg_airflow.drivers.kubernetes import KubernetesDriver
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.submission import Submission
from kseg_airflow.submit import submitter_of

if TYPE_CHECKING:
    from kseg_process import Kseg


#: The Kubernetes provider's client, which the Spark provider's hook looks for.
CLIENT = "airflow.providers.cncf.kubernetes.kube_client"


def connection(monkeypatch: pytest.MonkeyPatch, master: str, mode: str, **more: str) -> str:
    extra = {"deploy-mode": mode, "spark-binary": "spark-submit", **more}
    values = {"conn_type": "spark", "host": master, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KSEG_SPARK", json.dumps(values))
    return "kseg_spark"


def test_cluster_mode_on_a_standalone_cluster_is_refused_before_spark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn_id = connection(monkeypatch, "spark://127.0.0.1:1", "cluster")
    submission = Submission(words=["ingest", "job.yaml"], folder=tmp_path, conn_id=conn_id, env=dict(os.environ))
    with pytest.raises(AirflowFailException, match="set deploy-mode to client"):
        submitter_of("spark-submit")(submission)
    assert list(tmp_path.iterdir()) == []


def test_no_secret_is_left_of_what_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)
    secret = {"sasl.password": "hunter2"}
    kerberos = {
        "yarn_resourcemanager_webapp_address": "http://rm:8088",
        "keytab": "a2V5dGFi",
        "principal": "etl@EXAMPLE",
    }
    for master, mode, more, why in (
        ("yarn", "cluster", {}, "yarn_resourcemanager_webapp_address"),
        ("yarn", "cluster", kerberos, "requests-kerberos"),
        ("spark://127.0.0.1:1", "cluster", {}, "deploy-mode"),
    ):
        conn_id = connection(monkeypatch, master, mode, **more)
        submission = Submission(["ingest", "job.yaml"], tmp_path, conn_id=conn_id, properties=secret)
        with pytest.raises(AirflowFailException, match=why):
            submitter_of("spark-submit")(submission)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["local", "spark-submit"])
def test_no_secret_is_left_of_what_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    folder = tmp_path / "task" / "try-1"
    folder.mkdir(parents=True)
    conn_id = connection(monkeypatch, "local[1]", "client")
    more: dict[str, Any] = {"properties": {"sasl.password": "hunter2"}, "cwd": str(tmp_path / "nowhere")}
    with pytest.raises(FileNotFoundError, match="nowhere"):
        submitter_of(way)(Submission(["ingest", "job.yaml"], folder, conn_id=conn_id, **more))
    assert list(folder.iterdir()) == []


def test_a_yarn_whose_web_address_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submission = Submission(["ingest", "job.yaml"], tmp_path, conn_id=connection(monkeypatch, "yarn", "cluster"))
    with pytest.raises(AirflowFailException, match="yarn_resourcemanager_webapp_address"):
        submitter_of("spark-submit")(submission)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("conf", [{}, {"spark.yarn.tags": "etl,night", "spark.yarn.maxAppAttempts": "3"}])
def test_an_application_on_yarn_has_a_tag_of_its_own_and_nothing_of_this_hosts_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str]
) -> None:
    folder, programs = tmp_path / "task" / "try-1", tmp_path / "bin"
    for path in (folder, programs):
        path.mkdir(parents=True)
    (programs / "python").touch()
    (programs / "spark-submit").write_text('#!/bin/sh\nfor word; do echo "$word" >&2; done\nenv >&2\n')
    (programs / "spark-submit").chmod(0o755)
    conn_id = connection(
        monkeypatch, "yarn", "cluster", yarn_resourcemanager_webapp_address="http://127.0.0.1:1/", queue="night"
    )
    submission = Submission(
        ["ingest", "/jobs/orders.yaml"],
        folder,
        kseg=str(programs / "kseg"),
        conn_id=conn_id,
        job_file="/jobs/orders.yaml",
        env={"HADOOP_USER_NAME": "etl"},
        options={"conf": conf},
    )
    driver = submitter_of("spark-submit")(submission)
    assert isinstance(driver, YarnDriver)
    wait_for(driver.submitter.poll, "the end of spark-submit")
    assert (driver.resource_manager, driver.user) == ("http://127.0.0.1:1", "etl")
    words = driver.log_lines()[0]
    assert f"spark.yarn.tags={','.join(filter(None, [conf.get('spark.yarn.tags'), driver.tag]))}" in words
    assert f"spark.yarn.maxAppAttempts={conf.get('spark.yarn.maxAppAttempts', 1)}" in words
    assert "spark.yarn.submit.waitAppCompletion=false" in words
    assert words[words.index("--files") + 1] == "/jobs/orders.yaml"
    assert words[words.index("ingest") + 1] == "orders.yaml"
    assert not [word for word in words if word.startswith("PYSPARK_")]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_kubernetes_master_without_its_provider_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The Spark provider's hook failed by a NameError."""
    monkeypatch.setitem(sys.modules, CLIENT, None)
    conn_id = connection(monkeypatch, "k8s://https://127.0.0.1:1", mode)
    with pytest.raises(AirflowFailException, match=r"kafka-segment-etl-airflow\[kubernetes\]"):
        submitter_of("spark-submit")(Submission(["ingest", "job.yaml"], tmp_path, conn_id=conn_id))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {
            "spark.kubernetes.driver.pod.name": "orders",
            "spark.kubernetes.namespace": "night",
            "spark.kubernetes.driver.podTemplateContainerName": "etl",
        },
    ],
)
def test_a_pod_has_its_name_before_spark_submit_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str]
) -> None:
    folder, programs = tmp_path / "task" / "try-1", tmp_path / "bin"
    for path in (folder, programs):
        path.mkdir(parents=True)
    (programs / "spark-submit").write_text('#!/bin/sh\nfor word; do echo "$word" >&2; done\n')
    (programs / "spark-submit").chmod(0o755)
    conn_id = connection(monkeypatch, "k8s://https://127.0.0.1:1", "cluster", namespace="etl")
    submission = Submission(
        ["ingest", "orders.yaml"], folder, kseg=str(programs / "kseg"), conn_id=conn_id, options={"conf": conf}
    )
    driver = submitter_of("spark-submit")(submission)
    assert isinstance(driver, KubernetesDriver)
    wait_for(driver.submitter.poll, "the end of spark-submit")
    assert driver.namespace == conf.get("spark.kubernetes.namespace", "etl")
    assert driver.container == ("etl" if conf else "spark-kubernetes-driver")
    words = driver.submitter.log_lines()[0]
    assert f"spark.kubernetes.driver.pod.name={driver.pod}" in words
    assert driver.tag
    assert f"spark.kubernetes.driver.label.kseg-driver={driver.tag}" in words
    assert "spark.kubernetes.submission.waitAppCompletion=false" in words
    if conf:
        assert driver.pod == "orders"
    else:
        assert len(driver.pod) <= 63, "a host name is no longer, and tells in the ledger whose lease it is"


def test_the_drivers_outcome_is_that_of_kseg_although_spark_submit_stands_between(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, folder = tmp_path / "job.yaml", tmp_path / "task" / "try-1"
    job.write_text("version: 1\nname: orders\n")
    folder.mkdir(parents=True)
    conn_id = connection(monkeypatch, "local[1]", "client")
    submission = Submission(["ingest", str(job)], folder, kseg=str(kseg), conn_id=conn_id, job_file=str(job))
    driver = submitter_of("spark-submit")(submission)
    outcome = wait_for(driver.poll, "the driver's end", timeout=240)
    assert outcome.exit_code == 2, outcome
    assert outcome.error["kind"] == "ConfigurationError"
    assert {fault["path"] for fault in outcome.error["faults"]} >= {"source", "sink"}


def test_a_way_that_does_not_exist_is_told() -> None:
    with pytest.raises(AirflowFailException, match="local, spark-submit, livy"):
        submitter_of("telegraph")
