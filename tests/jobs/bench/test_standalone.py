"""The standalone cluster that tests and measurements run on: real processes, whose tasks run where it says."""

import os
import subprocess
import sys
import threading
import time
import venv
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from kseg.jobs.bench.standalone import StandaloneSpark, spark_home
from skips import full_scale_only

TASK = """
from pyspark import SparkContext

def where(_):
    import importlib.util, os, sys
    return sys.prefix, os.environ["SPARK_EXECUTOR_DIRS"], importlib.util.find_spec("kseg") is not None

with SparkContext(appName="where") as context:
    print(*context.parallelize([0], 1).map(where).first(), sep="\\n")
"""


class Unready(BaseHTTPRequestHandler):
    """A master that has opened its port and has no pages yet: Spark answers with one that says so."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Spark is starting up.</html>")


def test_a_master_that_is_still_starting_does_not_answer_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Unready) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr(StandaloneSpark, "ui", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(OSError, match="yet"):
            StandaloneSpark(tmp_path).state()


@pytest.mark.spark
@full_scale_only
def test_tasks_run_in_the_python_that_the_cluster_was_given_and_nothing_outlives_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python3"
    (tmp_path / "task.py").write_text(TASK)
    with StandaloneSpark(tmp_path / "cluster", workers=2, memory="512m", python=python) as cluster:
        assert [worker["cores"] for worker in cluster.state()["workers"]] == [1, 1]
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url, "--executor-memory", "512m"]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
        env = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "PYTHONPATH")}
        env |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": str(python)}
        told = subprocess.run(
            [*command, str(tmp_path / "task.py")], capture_output=True, text=True, env=env, timeout=300, check=False
        )
        assert told.returncode == 0, told.stderr
        prefix, _, ours = told.stdout.splitlines()
        assert (prefix, ours) == (str(tmp_path / "bare"), "False")
        assert [app["name"] for app in cluster.state()["completedapps"]] == ["where"]
        assert any(folder.glob("app-*/*/stderr") for folder in cluster.work_dirs)
        cluster.kill("worker-2")
        while cluster.state()["aliveworkers"] > 1:
            time.sleep(0.1)
        pids = cluster.pids
    assert set(pids) == {"master", "worker-1"}
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


def test_a_cluster_has_workers() -> None:
    with pytest.raises(ValueError, match="at least one"):
        StandaloneSpark(workers=0)
