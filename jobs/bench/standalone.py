"""A real Spark standalone cluster on the loopback interface: a master and workers, from pyspark's jars.

    with StandaloneSpark(workers=2, cores=1) as cluster:
        run("spark-submit", "--master", cluster.url, …)

One directory has all files: ``master.log``, ``worker-1.log`` …, and in ``worker-1/`` the files of each worker's
applications (``app-…/0/stdout``, ``stderr``) and of drivers in cluster mode (``driver-…``). Each executor is a separate
JVM.

When this process ends, even if it is killed, watchers stop the master and the workers (``kseg.jobs.broker.child``), and
executors end with their worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kseg.jobs.broker.child import await_ready
from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST
from kseg.jobs.broker.server import Server

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_START_TIMEOUT = 60.0
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_HANDED_ON = ("HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER")


def spark_home() -> Path:
    """The folder of pyspark: the ``SPARK_HOME`` of this installation, with ``bin/spark-submit``."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StartFailed("pyspark is not installed.", remedy="Run `make setup`.")
    return Path(spec.origin).parent


def spark_environment(conf_dir: Path, python: Path | None) -> dict[str, str]:
    """The environment of a Spark process on the loopback interface. conf_dir: a folder without user settings.

    python: the workers' Python. None: this process's Python, with its modules. Another Python gets none of our modules.

    Raises JavaMissing, StartFailed.
    """
    own = python or Path(sys.executable)
    found = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    found |= {
        "PATH": os.pathsep.join([str(own.parent), os.defpath]),
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": str(own),
    }
    if python is None and os.environ.get("PYTHONPATH"):
        found["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return found


class StandaloneSpark(Server[str]):
    """One master and its workers on free ports.

    Args:
        directory: the folder of all files; None: a temporary folder, which is deleted at stop.
        workers: the number of workers.
        cores: each worker's cores, which is its number of parallel tasks.
        memory: each worker's memory for executors (`spark.executor.memory` is 1g unless it is set).
        python: the Python of executors and of drivers in cluster mode, unless an application sets one. None: this
            process's Python, with its modules. Another Python gets none of our modules.
        env: additional environment of the workers, which executors inherit; it overrides variables that are set here.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        workers: int = 1,
        cores: int = 1,
        memory: str = "1g",
        python: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: there must be at least one")
        super().__init__(directory, "spark")
        self._workers, self._cores, self._memory = workers, cores, memory
        self._python, self._env = python, dict(env or {})
        self._ports: list[int] = []

    # What is running

    @property
    def url(self) -> str:
        """``spark://host:port``: the master for ``--master`` and ``spark.master``."""
        return f"spark://{HOST}:{self._ports[0]}"

    @property
    def ui(self) -> str:
        """The URL of the master's web page; ``/json/`` below it returns the same data as JSON."""
        return f"http://{HOST}:{self._ports[1]}"

    @property
    def work_dirs(self) -> tuple[Path, ...]:
        """Each worker's folder, with its applications and its drivers in cluster mode."""
        return tuple(self.directory / f"worker-{number}" for number in self._numbers)

    def state(self) -> dict[str, Any]:
        """The master's state: ``workers``, ``activeapps``, ``completedapps``, ``activedrivers`` and more.

        Raises OSError if the master does not respond.
        """
        with urllib.request.urlopen(f"{self.ui}/json/", timeout=10) as answer:
            text = answer.read()
        try:
            result: dict[str, Any] = json.loads(text)
        except ValueError as error:  # its port answers before its pages are there
            raise OSError("the master does not report its state yet") from error
        return result

    # Start and stop

    def _start(self) -> None:
        self._ports = free_ports(2 + 2 * self._workers)
        self._launch_spark("master", _MASTER, self._ports[0], self._ports[1])
        self._await_ready(0)
        for number in self._numbers:
            self.start_worker(number)
        self._await_ready(self._workers)

    def start_worker(self, number: int) -> None:
        """Start worker number 1, 2, …, also again after `kill`; does not wait until it has registered."""
        folder = self.work_dirs[number - 1]
        folder.mkdir(exist_ok=True)
        port, ui = self._ports[2 * number : 2 + 2 * number]
        given = ["--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(folder), self.url]
        self._launch_spark(f"worker-{number}", _WORKER, port, ui, *given)

    def kill(self, name: str) -> None:
        """Kill ``master`` or ``worker-N`` with SIGKILL, like a power failure; a worker's executors end soon after."""
        self._end([name], signal.SIGKILL)

    # Inside

    @property
    def _numbers(self) -> range:
        return range(1, self._workers + 1)

    def _launch_spark(self, name: str, main: str, port: int, ui: int, *more: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), main, "--host", HOST, "--port", str(port)]
        self._launch(name, [*command, "--webui-port", str(ui), *more], self._environment())

    def _environment(self) -> dict[str, str]:
        options = [*SMALL_JVM, "-Xss512k", "-Dspark.worker.timeout=10"]
        daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": " ".join(options)}
        return spark_environment(self.directory, self._python) | daemon | self._env

    def _await_ready(self, workers: int) -> None:
        def all_known() -> bool:
            try:
                return bool(self.state()["aliveworkers"] >= workers)
            except OSError:
                return False

        children = {f"Spark's {name}": process for name, process in self._processes.items()}
        await_ready(children, all_known, within=_START_TIMEOUT)
