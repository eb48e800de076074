"""Two that ask for the same at once: two attempts of one task instance, and two runs of one job. One of them lands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

from airflow_process import wait_for
from landed import once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

HARNESS = Path(__file__).parents[1] / "harness"
AIRFLOW = Path(__file__).parents[3] / "airflow"
ROWS = 20

# What a worker's process does for one attempt, without Airflow's own part: that would keep a second one away.
ATTEMPT = """
import json, sys, time
from pathlib import Path
from types import SimpleNamespace
from kseg_airflow.operators import KsegIngestOperator

job, run_dir, begin, answer = sys.argv[1:]
task = KsegIngestOperator(task_id="ingest", job_file=job, run_dir=run_dir, deferrable=False, poll_interval=0.2,
                          emit_assets=False)
ti = SimpleNamespace(dag_id="racing", task_id="ingest", run_id="r", map_index=-1, xcom_push=lambda **_: None)
print("ready", flush=True)
while not Path(begin).exists():
    time.sleep(0.001)
Path(answer).write_text(json.dumps(task.execute({"ti": ti})))
"""

DAG = """
from airflow.sdk import DAG
from kseg_airflow.operators import KsegIngestOperator

with DAG({name!r}, schedule=None, max_active_runs=2):
    KsegIngestOperator(task_id="ingest", job_file={job!r}, env={{"KSEG_TEST_HOLD": {hold!r}}}, deferrable=True,
                       poll_interval=0.5)
"""


@dataclass
class Held:
    """A job whose tasks stand still until they are released."""

    kseg: Kseg
    file: Path
    topic: str

    @property
    def hold(self) -> Path:
        return self.file.parent / "hold"

    def stands_still(self) -> bool:
        return any(self.hold.glob("held-*"))

    def release(self) -> None:
        (self.hold / "released").touch()

    def assert_landed_once(self) -> None:
        landed = read_table(self.kseg, self.file.parent / "table")
        assert landed.addresses == once({(self.topic, 0, offset) for offset in range(ROWS)})
        runs = self.kseg.status(self.file)["runs"]
        assert [run["rows_out"] for run in runs if run["rows_out"]] == [ROWS]


@pytest.fixture
def held(kseg: Kseg, kafka: KafkaProcess, lake: Path) -> Held:
    topic = kafka.topic(prefix="racing")
    kafka.produce(topic, [{"value": f"v{n}"} for n in range(ROWS)])
    (lake / "hold").mkdir()
    file = lake / "job.yaml"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "name": topic,
                "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
                "source": {"topics": [topic]},
                "transform": [{"arrow": "holding:until_released"}],
                "sink": {"path": "./table"},
                "ledger": "./_ledger",
                "group": topic,
                "run": {"lease": "10s", "engine": "local"},
            }
        )
    )
    return Held(kseg, file, topic)


def test_two_attempts_of_a_task_at_once_share_one_driver(held: Held, lake: Path) -> None:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(lake),
        "KSEG_BINARY": str(held.kseg),
        "KSEG_TEST_HOLD": str(held.hold),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(AIRFLOW), str(HARNESS), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
    }
    begin, logs = lake / "begin", [lake / "0.log", lake / "1.log"]
    attempts = []
    for log in logs:
        command = [sys.executable, "-c", ATTEMPT, held.file, lake / "runs", begin, log.with_suffix(".json")]
        with log.open("w") as output:
            attempts.append(subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT))

    def told(words: str) -> list[bool]:
        return sorted(words in log.read_text() for log in logs)

    try:
        wait_for(lambda: all(told("ready")), "both are ready", timeout=120)
        begin.touch()
        wait_for(held.stands_still, "a driver lands", timeout=240)
        wait_for(lambda: any(told("Attached to the driver of a previous try")), "the other finds it")
        assert told("Started kseg") == [False, True]
        assert told("Attached to the driver of a previous try") == [False, True]
    finally:
        held.release()
        codes = [attempt.wait(timeout=240) for attempt in attempts]
    assert codes == [0, 0], [log.read_text() for log in logs]
    one, other = (json.loads(log.with_suffix(".json").read_text()) for log in logs)
    assert one == other
    assert [path.name for path in lake.glob("runs/racing/r/ingest/try-*")] == ["try-1"]
    held.assert_landed_once()


def test_of_two_runs_of_a_job_at_once_one_lands_and_the_other_finds_nothing_left(
    airflow: RunningAirflow, held: Held
) -> None:
    airflow.add_dag(
        DAG.format(name=held.topic, job=str(held.file), hold=str(held.hold)), f"{held.topic}.py", expect=[held.topic]
    )
    runs = [airflow.trigger(held.topic, run_id=f"run-{n}") for n in range(2)]
    wait_for(held.stands_still, "a driver lands", timeout=240)
    wait_for(lambda: any(_waits(airflow, held.topic, run) for run in runs), "the other waits", timeout=240)
    held.release()
    for run in runs:
        airflow.wait_for_run(held.topic, run, timeout=300)
    held.assert_landed_once()
    counts = [event["extra"]["kseg"]["counts"]["records"] for event in airflow.asset_events(dag=held.topic)]
    assert counts == [ROWS]


def _waits(airflow: RunningAirflow, dag: str, run: str) -> bool:
    return "Another run of the job holds its lease" in airflow.log(dag, run, "ingest", 1)
