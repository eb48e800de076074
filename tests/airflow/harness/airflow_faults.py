"""Which part of a running Airflow is killed when: decided by a seed, so that a run that failed can be run again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from celery_airflow import WORKERS, CeleryAirflow
from kseg_airflow.processes import find, session_members

#: Each comes once, in an order that the seed decides, before they come by their weights.
KINDS = {
    **dict.fromkeys(WORKERS, 4),
    "triggerer": 3,
    "scheduler": 2,
    "api-server": 1,
    "dag-processor": 1,
    "driver": 3,
    "task": 3,
}


@dataclass(frozen=True)
class Fault:
    """What is killed. pause: seconds of a quiet machine (`Patience`) after the last one was
    started again. down: for how many seconds it is away.

    choice: which of several drivers or tasks, as a part of 1.
    """

    what: str
    pause: float
    down: float
    choice: float


def faults(seed: int) -> Iterator[Fault]:
    """An endless sequence; the same of the same seed. What they meet depends on the machine."""
    chosen = random.Random(seed)
    first = chosen.sample(list(KINDS), len(KINDS))
    while True:
        what = first.pop() if first else chosen.choices(list(KINDS), list(KINDS.values()))[0]
        yield Fault(what, round(chosen.uniform(1.5, 5), 1), round(chosen.uniform(0, 10), 1), chosen.random())


def inflict(airflow: CeleryAirflow, fault: Fault) -> str:
    """Kill (SIGKILL), and start again what is a part. Returns what was met, for the account of the run."""
    if fault.what in airflow.parts:
        airflow.kill(fault.what)
        time.sleep(fault.down)
        airflow.start(fault.what)
        return f"{fault.what} killed, away for {fault.down} s"
    found = drivers(airflow.home) if fault.what == "driver" else tasks(airflow)
    if not found:
        return f"no {fault.what} was running"
    victim = found[int(fault.choice * len(found))]
    members = session_members(os.getsid(victim.pid)) if fault.what == "driver" else [victim]
    for process in members:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return f"{fault.what} {victim.pid} killed"


def drivers(home: Path) -> list[psutil.Process]:
    """The drivers that live, whichever run folder they have."""
    found = []
    for file in sorted(home.glob("*runs/*/*/*/try-*/run.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            told = json.loads(file.read_text())
            process = find(int(told["pid"]), float(told["pid_started"]), told.get("pid_ticks"))
            if process is not None:
                found.append(process)
    return found


def left_of_drivers(home: Path) -> list[str]:
    """The command lines of all processes that a driver was, or has started, or that watch one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if any(f"{home}/{name}" in line for name in ("shared-runs/", "worker-a-runs/", "worker-b-runs/", "jobs/")):
                found.append(line)
    return found


def tasks(airflow: CeleryAirflow) -> list[psutil.Process]:
    """The processes of tasks that workers run: grandchildren of a worker, since each pool process starts its own."""
    found = []
    for worker in WORKERS:
        if airflow.running(worker):
            with contextlib.suppress(psutil.Error):
                pool = psutil.Process(airflow.pid(worker)).children()
                found += [task for process in pool for task in process.children()]
    return sorted(found, key=lambda process: process.pid)
