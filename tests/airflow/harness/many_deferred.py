"""What a triggerer has to do for many deferred tasks: a real one, with a PostgreSQL and an API server beside it.

    .venv-airflow/bin/python tests/airflow/harness/many_deferred.py [--tasks 500] [--seconds 60]

The tasks' drivers are one process that lives, and a run folder for each: of a driver the triggerer reads what it would
read of any. Printed are the CPU seconds of triggerer and API server in each second, the triggerer's memory, how
often its loop was blocked (Airflow's own warning), and how long it took until all ends were known.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "airflow")]

from airflow_process import PARTS, SETTINGS, wait_for  # noqa: E402
from airflow_rest import RunningAirflow  # noqa: E402
from kseg_airflow.processes import here, ticks_of  # noqa: E402

DAG = """
from airflow.sdk import DAG
from kseg_airflow.operators import KsegCommandOperator

with DAG("many", schedule=None):
    for number in range({tasks}):
        KsegCommandOperator(task_id=f"task-{{number}}", command="maintain")
"""

#: Run in Airflow's own database: each task instance is deferred to the trigger of its driver.
_DEFER = """
import json, sys
from pathlib import Path
from sqlalchemy import select
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from kseg_airflow.triggers import KsegRunTrigger

root, run = Path(sys.argv[1]), sys.argv[2]
with create_session() as session:
    for ti in session.scalars(select(TaskInstance).where(TaskInstance.run_id == run)):
        folder = root / ti.task_id
        handle = json.loads((folder / "record.json").read_text())["handle"]
        trigger = Trigger.from_object(KsegRunTrigger(handle, folder=str(folder)))
        session.add(trigger)
        session.flush()
        ti.state, ti.trigger_id, ti.next_method, ti.try_number = "deferred", trigger.id, "execute_complete", 1
"""


class WithoutScheduler(RunningAirflow):
    """What a triggerer needs to run."""

    parts: ClassVar[dict[str, list[str]]] = {name: PARTS[name] for name in ("api-server", "dag-processor")}
    settings: ClassVar[dict[str, str]] = SETTINGS | {"DAG_PROCESSOR__REFRESH_INTERVAL": "60"}


def folders(root: Path, tasks: int, pid: int) -> None:
    """A run folder for each task, of the same process."""
    for number in range(tasks):
        folder = root / f"task-{number}"
        handle = {"folder": str(folder / "try-1"), "pid": pid, "began": psutil.Process(pid).create_time()}
        handle |= {"session": os.getsid(pid), "place": here(), "kind": "process", "ticks": ticks_of(pid)}
        (folder / "try-1").mkdir(parents=True)
        record = {"attempt": 1, "handle": handle, "asked": "", "started_at": ""}
        (folder / "record.json").write_text(json.dumps(record))
        told = {"phase": "land", "progress": {"done": 3, "total": 40, "unit": "tasks"}}
        (folder / "try-1" / "run.json").write_text(json.dumps(told))


def used(pid: int) -> float:
    """CPU seconds of a process and its children."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in family)


def measure(airflow: WithoutScheduler, tasks: int, seconds: float) -> None:
    root = airflow.home / "runs"
    with subprocess.Popen(["sleep", "36000"], start_new_session=True) as driver:
        try:
            folders(root, tasks, driver.pid)
            airflow.add_dag(DAG.format(tasks=tasks), "many.py", expect=["many"])
            run = airflow.trigger("many")
            words = [sys.executable, "-c", _DEFER, str(root), run]
            subprocess.run(words, env=airflow.environment, cwd=airflow.home, check=True, capture_output=True)
            airflow.parts = {**airflow.parts, "triggerer": PARTS["triggerer"]}
            triggerer = airflow.start("triggerer")
            log = airflow.log_file("triggerer")
            wait_for(lambda: f"{tasks} triggers currently running" in log.read_text(), "all triggers run", timeout=600)
            _report(airflow, triggerer, tasks, seconds)
            for folder in root.glob("*/try-1"):
                (folder / "exit").write_text("0\n")
            began, before = time.monotonic(), used(triggerer)

            def left() -> bool:
                states = {task["state"] for task in airflow.tasks("many", run)}
                return "deferred" in states

            wait_for(lambda: not left(), "all ends are known", timeout=600, every=1)
            print(f"all ends known after {time.monotonic() - began:.0f} s, CPU {used(triggerer) - before:.1f} s")
        finally:
            driver.kill()


def _report(airflow: WithoutScheduler, triggerer: int, tasks: int, seconds: float) -> None:
    log, api = airflow.log_file("triggerer"), airflow.pid("api-server")
    blocked = log.read_text().count("async thread was blocked")
    before, began = (used(triggerer), used(api)), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    share = [(now - then) / passed for now, then in zip((used(triggerer), used(api)), before, strict=True)]
    family = [psutil.Process(triggerer), *psutil.Process(triggerer).children(recursive=True)]
    memory = sum(process.memory_info().rss for process in family) / 1e6
    blocked = log.read_text().count("async thread was blocked") - blocked
    print(f"{tasks} deferred tasks, watched for {passed:.0f} s")
    print(f"CPU seconds a second: triggerer {share[0]:.2f}, API server {share[1]:.2f}")
    print(f"triggerer's memory {memory:.0f} MB; its loop was blocked for over 0.2 s {blocked} times")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a triggerer with many deferred tasks.")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kseg-many-") as folder:
        paths = [*sys.path[:2], *filter(None, [os.environ.get("PYTHONPATH")])]
        airflow = WithoutScheduler(Path(folder), {"PYTHONPATH": os.pathsep.join(paths)})
        try:
            airflow.start_all()
            measure(airflow, asked.tasks, asked.seconds)
        finally:
            airflow.stop()


if __name__ == "__main__":
    main()
