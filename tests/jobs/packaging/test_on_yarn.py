"""A job submitted to a real YARN, whose containers have a bare Python: the driver outside, and in a container."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kseg.jobs.bench.standalone import spark_home
from skips import full_scale_only
from yarn import Yarn

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    full_scale_only,
]

ROWS = 500
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "768m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
    "spark.ui.enabled": "false",
}


GATE = """
import time
from pathlib import Path

def wait(batch):
    while not Path({gate!r}).exists():
        Path({gate!r} + "-reached").touch()
        time.sleep(0.05)
    return batch
"""


def produce(kafka: Any, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(ROWS):
        producer.produce(topic, value=b"v%d" % number)
    assert producer.flush(60) == 0


def job_file(kafka: Any, topic: str, folder: Path, more: str = "") -> Path:
    """A job from this topic into `folder`/lake/orders. The driver in a container has a folder of its own, so paths are
    absolute. more: further lines."""
    path = folder / "orders.yaml"
    path.write_text(
        f"""
version: 1
name: {topic}
kafka: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}
source: {{topics: [{topic}]}}
sink: {{path: {folder}/lake/orders}}
group: {topic}
ledger: {folder}/lake/_kseg_ledger
spark: {{master: yarn}}
{more}
"""
    )
    return path


def kseg(*words: object) -> Any:
    command = [sys.executable, "-m", "kseg.jobs.cli", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def landed(folder: Path) -> list[int]:
    return sorted(pa.table(DeltaTable(folder / "lake" / "orders").scan(["offset"]))["offset"].to_pylist())


def spark_submit(yarn: Yarn, line: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    assert line[:3] == ["spark-submit", "--master", "yarn"]
    settings = [word for pair in (SMALL | yarn.spark_conf).items() for word in ("--conf", "=".join(pair))]
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "yarn", *settings, *line[3:]]
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    env |= {"HADOOP_CONF_DIR": str(yarn.conf_dir), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def test_a_job_lands_by_an_archive_from_outside_and_from_a_container(kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1, prefix="yarn")
    job = job_file(kafka, topic, tmp_path)
    lines = kseg("package", "--out", tmp_path / "dist", "--archive", "--driver", "--job", job)["spark_submit"]
    with Yarn(tmp_path / "yarn") as yarn:
        for runs, mode in enumerate(("client", "cluster"), start=1):
            produce(kafka, topic)
            done = spark_submit(yarn, lines[mode], tmp_path)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
            (application,) = set(re.findall(r"application_\d+_\d+", done.stderr))
            assert yarn.application(application)["finalStatus"] == "SUCCEEDED"
            assert landed(tmp_path) == list(range(runs * ROWS))


def test_of_a_driver_that_is_killed_in_its_midst_the_applications_next_attempt_lands_the_run(
    kafka: Any, tmp_path: Path
) -> None:
    topic = kafka.topic(1, prefix="yarn")
    produce(kafka, topic)
    (tmp_path / "yarn_gate.py").write_text(GATE.format(gate=str(tmp_path / "gate")))
    job = job_file(kafka, topic, tmp_path, 'transform: [{arrow: "yarn_gate:wait"}]')
    line = kseg("package", "--out", tmp_path / "dist", "--job", job)["spark_submit"]["cluster"]
    line[3:3] = ["--conf", "spark.yarn.maxAppAttempts=2"]
    with Yarn(tmp_path / "yarn") as yarn, ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(spark_submit, yarn, line, tmp_path)
        try:
            while not (tmp_path / "gate-reached").exists():
                assert not submitted.done(), submitted.result().stderr[-4000:]
                time.sleep(0.2)
            [lease] = kseg("status", job)["leases"]
            container, pid, _ = lease["owner"].split(":")
            os.kill(int(pid), signal.SIGKILL)
        finally:
            (tmp_path / "gate").touch()
        done = submitted.result()
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert landed(tmp_path) == list(range(ROWS))
    [run] = kseg("status", job)["runs"]
    attempt = re.compile(r"_(\d\d)_\d+$")
    first, last = attempt.search(container), attempt.search(run["owner"].partition(":")[0])
    assert first is not None
    assert last is not None
    assert (first[1], last[1]) == ("01", "02")
