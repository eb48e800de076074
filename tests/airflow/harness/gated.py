"""A DAG of one task, whose run stands still at a gate until a test opens it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_process import wait_for
from kseg_airflow.assets import table_uri
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.run_folder import DriverRecord, RunFolder

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

ROWS = 300

# The transform's step waits in its task until the test opens the gate: a run that stands still as long as wanted.
GATE = """
import time
from pathlib import Path

def wait(batch):
    while not Path({gate!r}).exists():
        Path({gate!r} + "-reached").touch()
        time.sleep(0.05)
    return batch
"""

JOB = """
version: 1
name: {name}
kafka: {{bootstrap.servers: "{servers}"}}
source: {{topics: [{topic}]}}
transform: [{{arrow: "{name}_gate:wait"}}]
sink: {{path: {folder}/table}}
ledger: {folder}/_ledger
group: {name}
run: {{engine: {engine}, lease: {lease}}}
spark: {{master: "local[1]"}}
"""

DAG = """
from datetime import timedelta
from airflow import DAG
from kseg_airflow.operators import KsegIngestOperator

with DAG({name!r}, schedule=None, default_args={{"retries": 1, "retry_delay": timedelta(seconds=1)}}):
    KsegIngestOperator(task_id="ingest", job_file={job!r}, env={env!r}, run_dir={run_dir!r}, poll_interval=0.5,
                       kill_grace=120, deferrable={deferrable!r}{submit})
"""


@dataclass
class Gated:
    """One DAG of one task, whose run waits at a gate."""

    airflow: RunningAirflow
    kseg: Kseg
    name: str
    folder: Path
    topic: str
    engine: str
    run: str = ""

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

    def record(self) -> DriverRecord:
        identity = {"dag_id": self.name, "task_id": "ingest", "run_id": self.run, "map_index": -1}
        record = RunFolder.of(str(self.folder / "runs"), identity).record()
        assert record is not None
        return record

    def driver(self) -> LocalDriver:
        return LocalDriver(**self.record().handle)

    def trigger(self) -> None:
        """Trigger the DAG, and wait until a driver was started."""
        self.run = self.airflow.trigger(self.name)
        identity = {"dag_id": self.name, "task_id": "ingest", "run_id": self.run, "map_index": -1}
        folder = RunFolder.of(str(self.folder / "runs"), identity)
        wait_for(folder.record, "a driver was started", timeout=300)

    def reach(self) -> None:
        """Wait until a task stands at the gate that did not stand there before, wherever it runs."""
        sign = self.folder / "gate-reached"
        sign.unlink(missing_ok=True)
        wait_for(sign.exists, "a task stands at the gate", timeout=300)

    def begin(self) -> LocalDriver:
        """Trigger the DAG, and wait until its driver, a process on this machine, stands at the gate."""
        self.trigger()
        driver = self.driver()
        wait_for(lambda: self.lands(driver), "the driver lands", timeout=300)
        return driver

    def wait_until_watched(self) -> None:
        """Wait until the triggerer would hear of what a person does to the task."""
        self.airflow.wait_until_watched(self.name, self.run, "ingest")

    def lands(self, driver: LocalDriver) -> bool:
        told = driver.run_file() or {}
        assert told.get("state") in (None, "running"), told
        works = told.get("spark") is not None or (self.engine == "local" and (self.folder / "gate-reached").exists())
        return told.get("phase") == "land" and works

    def status(self) -> Any:
        return self.kseg.status(self.folder / "job.yaml")

    def assert_landed_once(self) -> None:
        status = self.status()
        assert [run["phase"] for run in status["runs"]] == ["finished"], status
        assert (status["runs"][0]["rows_out"], status["lag"], status["leases"]) == (ROWS, 0, [])
        events = self.airflow.asset_events(dag=self.name)
        assert [event["uri"] for event in events] == [table_uri(str(self.folder / "table"))]
        told = events[0]["extra"]["kseg"]
        assert told["counts"]["records"] == ROWS
        assert told["run"] == status["runs"][0]["run_id"]
        assert told["tables"][0]["rows"] == ROWS


def gated_dag(
    airflow: RunningAirflow,
    kseg: Kseg,
    kafka: KafkaProcess,
    folder: Path,
    name: str,
    *,
    deferrable: bool = True,
    engine: str = "spark",
    lease: str = "2m",
    submit: str | Callable[[Path], str] = "",
    env: Mapping[str, str] | None = None,
) -> Gated:
    """A topic with ROWS records, a job for it, and the DAG that ingests it.

    folder: an empty one, for table, ledger and the gate. engine: where the run's tasks work, "spark" or "local". lease:
    how long a run that is not heard of keeps its job. submit: more arguments of the operator, as Python's text, or
    what makes them for a job file. env: more environment of the driver.
    """
    topic = kafka.topic(prefix=name)
    kafka.produce(topic, [{"value": f"v{n}"} for n in range(ROWS)])
    (folder / f"{name}_gate.py").write_text(GATE.format(gate=str(folder / "gate")))
    job = folder / "job.yaml"
    job.write_text(
        JOB.format(name=name, folder=folder, servers=kafka.bootstrap_servers, topic=topic, engine=engine, lease=lease)
    )
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    dag = DAG.format(
        name=name,
        job=str(job),
        env={"PYTHONPATH": path} | dict(env or {}),
        run_dir=str(folder / "runs"),
        deferrable=deferrable,
        submit=submit if isinstance(submit, str) else submit(job),
    )
    airflow.add_dag(textwrap.dedent(dag), f"{name}.py", expect=[name])
    return Gated(airflow, kseg, name, folder, topic, engine)
