"""`kseg ingest` that is stopped while Spark works ends in order, whoever sends the signal, and whoever else gets it.

The driver's main thread waits for the JVM's answer then. A terminal's Ctrl-C, `timeout`, systemd and Airflow's last
resort send the signal to the JVM as well, or send it twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from kseg.etl.ledger.store import Ledger
from skips import FULL

pytestmark = [pytest.mark.broker, pytest.mark.spark]

GATE = """
import os, time
from pathlib import Path
from pyspark import TaskContext

def wait(batch):
    if TaskContext.get() is None:
        return batch  # in the driver, which asks for the schema
    Path(os.environ["GATE"], "reached").touch()
    while not Path(os.environ["GATE"], "open").exists():
        time.sleep(0.05)
    return batch
"""
#: Two ways to wait for Spark: an RDD's action, and a DataFrame's.
STEPS = {
    "arrow": [{"arrow": "gate:wait"}],
    "sql": [{"arrow": "gate:wait"}, {"sql": "SELECT * FROM __rows__ WHERE offset >= 0"}],
}
JOB = """
version: 1
name: stopped
kafka: {{bootstrap.servers: "{servers}"}}
source: {{topics: [{topic}]}}
transform: {steps}
sink: {{path: {folder}/table}}
ledger: {folder}/_ledger
spark: {{master: "local[1]"}}
"""


@dataclass
class Driver:
    """`kseg ingest --json` as the first process of a session, with a Spark task that stands at a gate."""

    folder: Path
    process: subprocess.Popen[str]

    def members(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (OSError, psutil.Error):
                continue
        return found

    def send(self, number: signal.Signals, to: str) -> None:
        """To the process alone, to its group as a terminal does, or to the session's processes as Airflow does."""
        if to == "process":
            self.process.send_signal(number)
        elif to == "twice":
            self.process.send_signal(number)
            time.sleep(0.05)
            self.process.send_signal(number)
        elif to == "group":
            os.killpg(self.process.pid, number)
        else:
            for member in self.members():
                with contextlib.suppress(psutil.NoSuchProcess):  # one that ends when its parent gets the signal
                    member.send_signal(number)


@pytest.fixture
def driver(kafka: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Driver]:
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value=b"a")
    assert producer.flush(60) == 0
    (tmp_path / "gate.py").write_text(GATE)
    job = tmp_path / "job.yaml"
    steps = json.dumps(STEPS[getattr(request, "param", "arrow")])
    job.write_text(JOB.format(servers=kafka.bootstrap_servers, topic=topic, folder=tmp_path, steps=steps))
    process = subprocess.Popen(
        [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(job), "--json", "--run-file", str(tmp_path / "run.json")],
        env={**os.environ, "GATE": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    driver = Driver(tmp_path, process)
    try:
        while not (tmp_path / "reached").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        yield driver
    finally:
        for member in driver.members():
            member.kill()
        process.communicate()


CASES = [
    ("arrow", signal.SIGTERM, "process"),
    ("arrow", signal.SIGTERM, "group"),
    ("arrow", signal.SIGTERM, "session"),
    ("arrow", signal.SIGTERM, "twice"),
    ("arrow", signal.SIGINT, "process"),
    ("arrow", signal.SIGINT, "group"),
    ("sql", signal.SIGTERM, "process"),
    ("sql", signal.SIGTERM, "group"),
    ("sql", signal.SIGINT, "group"),
]
USUAL = [CASES[3], CASES[5]]


@pytest.mark.parametrize(("driver", "number", "to"), CASES if FULL else USUAL, indirect=["driver"])
def test_it_ends_in_order_while_a_task_goes_on(driver: Driver, number: signal.Signals, to: str) -> None:
    driver.send(number, to)
    out, err = driver.process.communicate(timeout=120)
    kind = "Terminated" if number == signal.SIGTERM else "Interrupted"
    assert driver.process.returncode == 1, err
    assert json.loads(out)["error"]["kind"] == kind, err
    told = json.loads((driver.folder / "run.json").read_text())
    assert (told["state"], told["exit_code"], told["result"]["error"]["kind"]) == ("failed", 1, kind)
    state = Ledger.open(str(driver.folder / "_ledger"), create=False).read("stopped")
    lease, run = state.lease("incremental"), state.unfinished("incremental")
    assert lease is not None
    assert lease.released
    assert run is not None
    assert run.refused is not None
    assert run.refused.code == kind
    assert "Traceback" not in err
    psutil.wait_procs(driver.members(), timeout=60)
    assert driver.members() == []
