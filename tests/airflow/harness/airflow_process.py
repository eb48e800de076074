"""A real Airflow on this machine: its four parts as processes, each of which a test may kill and start again.

Everything but the database lies in one folder (``AIRFLOW_HOME``): logs, DAG files. Intervals are low, so that
tests do not wait for them. Ports are free ones.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

import psutil
import requests

from database import start_database
from patience import Patience

T = TypeVar("T")

#: Ports that the kernel gives to no outgoing connection, and `kseg broker` to no broker. Each of pytest's processes has
#: some of its own: until a server listens, another process would find its port free.
_PORTS_OF_A_PROCESS = 1_000
_BELOW_THE_KERNELS = range(12_000, 20_000)

#: The parts, as ``airflow NAME`` starts them.
PARTS = {
    "api-server": ["--workers", "1"],
    "scheduler": ["--skip-serve-logs"],
    "dag-processor": [],
    "triggerer": ["--skip-serve-logs"],
}

#: Airflow looks for backfills that have ended every thirty seconds, which no setting changes; a DAG has no second one
#: before that. Appended to `airflow_local_settings.py`, which all of Airflow's processes import.
BACKFILLS_END_SOON = """
def _backfills_end_soon():
    from airflow.utils.event_scheduler import EventScheduler

    whole = EventScheduler.call_regular_interval

    def sooner(self, delay, action, *more, **named):
        if getattr(action, "__name__", "") == "_mark_backfills_complete":
            delay = 1
        return whole(self, delay, action, *more, **named)

    EventScheduler.call_regular_interval = sooner

_backfills_end_soon()
"""

#: What differs from Airflow's defaults. Durations are in seconds.
SETTINGS = {
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": "3",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    # A changed DAG is stored anew at once.
    "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
    # A busy machine takes its time for the imports of a DAG file.
    "CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "400",
    "API__EXPOSE_CONFIG": "True",
    # The database is on this machine, and is not restarted: each connection is good.
    "DATABASE__SQL_ALCHEMY_POOL_PRE_PING": "False",
    "LOGGING__COLORED_CONSOLE_LOG": "False",
    # New and changed files are seen within a second; unchanged ones are left alone (see Airflow.parse_again).
    "DAG_PROCESSOR__REFRESH_INTERVAL": "1",
    "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    # A DAG that its file had no more when it was last read is gone soon.
    "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "3",
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.6",
    "SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "SCHEDULER__PARSING_CLEANUP_INTERVAL": "5",
    "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    # Who is dead is found out soon: a scheduler, a worker's task, a triggerer. One that a busy machine keeps waiting is
    # not taken for dead: its tasks would be started a second time beside themselves.
    "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "40",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    # A busy machine's API server may take its time.
    "WORKERS__EXECUTION_API_TIMEOUT": "60",
    "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}


class AirflowFailed(AssertionError):
    """A part of Airflow does not run as it should; the message ends with what it wrote last."""


class AirflowProcesses:
    """Airflow's parts: ``start``, ``kill`` and ``restart`` each, ``stop`` all.

    ``environment`` is laid over this process's environment; DAGs and tasks see it too.
    """

    #: What another release calls otherwise: see airflow_2.py.
    parts: ClassVar[dict[str, list[str]]] = PARTS
    settings: ClassVar[dict[str, str]] = SETTINGS
    health = "api/v2/monitor/health"

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.dags_folder = home / "dags"
        self.dags_folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._database = start_database(home)
        (home / "config").mkdir(exist_ok=True)
        with (home / "config" / "airflow_local_settings.py").open("a") as local_settings:
            local_settings.write(BACKFILLS_END_SOON)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")},
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._database.url,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "PYTHONUNBUFFERED": "1",
            **{f"AIRFLOW__{key}": value for key, value in self.settings.items()},
            **(environment or {}),
        }

    def start_all(self) -> None:
        """Make the database, start all parts, and wait until each of them has reported itself healthy."""
        self.run("db", "migrate")
        for part in self.parts:
            self.start(part)
        self.wait_until_healthy()

    def run(self, *arguments: str, timeout: float = 400) -> str:
        """Run ``airflow ARGUMENTS`` to its end; returns what it printed. Raises AirflowFailed if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise AirflowFailed(f"airflow {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, part: str) -> int:
        """Start one of `parts`, which must not run; returns its process id."""
        before = self._processes.get(part)
        assert before is None or before.poll() is not None, f"{part} runs already"
        with self.log_file(part).open("ab") as log:
            self._processes[part] = subprocess.Popen(
                [sys.executable, "-m", "airflow", *self.words(part)],
                env=self.environment_of(part),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._processes[part].pid

    def words(self, part: str) -> list[str]:
        """What starts a part, after ``airflow``."""
        return [part, *self.parts[part]]

    def environment_of(self, part: str) -> dict[str, str]:
        """A part's environment."""
        return self.environment

    def running(self, part: str) -> bool:
        """Whether a part was started and has not ended."""
        process = self._processes.get(part)
        return process is not None and process.poll() is None

    def pid(self, part: str) -> int:
        """The process id of a part that runs."""
        return self._processes[part].pid

    def kill(self, part: str, *, family: bool = True) -> None:
        """Kill a part (SIGKILL), as a machine's crash does; with ``family`` also what it started, as far as that
        has not detached itself: the scheduler's workers and their tasks, the triggerer's runner."""
        process = self._processes.pop(part)
        if family:
            kill_family(process.pid)
        else:
            process.kill()
        process.wait(timeout=120)

    @contextlib.contextmanager
    def suspended(self, part: str) -> Iterator[None]:
        """A part and what it started stand still (SIGSTOP) for a while."""
        process = psutil.Process(self.pid(part))
        family = [process, *process.children(recursive=True)]
        for member in family:
            member.suspend()
        try:
            yield
        finally:
            for member in family:
                member.resume()

    def restart(self, part: str) -> int:
        """Start a part that was killed, and wait until all are healthy again; returns its process id."""
        pid = self.start(part)
        self.wait_until_healthy()
        return pid

    def restart_missing(self) -> None:
        """Start every part that does not run."""
        for part in self.parts:
            process = self._processes.get(part)
            if process is None or process.poll() is not None:
                self.start(part)
        self.wait_until_healthy()

    def stop(self) -> None:
        """End all parts and what they started, and the database."""
        for part in list(self._processes):
            self.kill(part)
        self._database.stop()

    def log_file(self, part: str) -> Path:
        return self.home / f"{part}.log"

    def wait_until_healthy(self, timeout: float = 400) -> None:
        """Wait until the API answers and every part that was started has a heartbeat."""

        def healthy() -> bool:
            for part, process in self._processes.items():
                if process.poll() is not None:
                    raise AirflowFailed(f"{part} ended with exit {process.returncode}\n{self._tail(part)}")
            try:
                answer = requests.get(f"{self.url}/{self.health}", timeout=60)
            except requests.RequestException:
                return False
            if not answer.ok:
                return False
            health = answer.json()
            names = {"scheduler", "dag-processor", "triggerer"} & set(self._processes)
            return all((health.get(name.replace("-", "_")) or {}).get("status") == "healthy" for name in names)

        try:
            wait_for(healthy, "Airflow is healthy", timeout=timeout)
        except TimeoutError as late:
            raise AirflowFailed("\n".join([str(late), *(self._tail(part) for part in self.parts)])) from late

    def _tail(self, part: str, lines: int = 30) -> str:
        path = self.log_file(part)
        text = path.read_text(errors="replace").splitlines()[-lines:] if path.exists() else []
        return "\n".join([f"--- {part} ---", *text])


def wait_for(look: Callable[[], T], what: str, *, timeout: float = 300, every: float = 0.2) -> T:
    """Ask ``look`` again and again until it answers with something true, which is returned. Raises TimeoutError after
    ``timeout`` seconds of a quiet machine."""
    patience = Patience(timeout)
    while True:
        found = look()
        if found:
            return found
        if patience.over():
            raise TimeoutError(f"waited in vain, {timeout:.0f} s of a quiet machine: {what}")
        time.sleep(every)


def kill_family(pid: int) -> None:
    """Kill a process and all that descend from it."""
    try:
        process = psutil.Process(pid)
        family = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)
    psutil.wait_procs(family, timeout=120)


def free_port() -> int:
    """A port of the loopback that nobody listens on, and that no client's connection is given before it is used."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    begin = worker * _PORTS_OF_A_PROCESS % len(_BELOW_THE_KERNELS)
    ours = _BELOW_THE_KERNELS[begin : begin + _PORTS_OF_A_PROCESS]
    for port in random.sample(ours, len(ours)):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port in {ours}")
