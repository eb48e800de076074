"""A real Spark Connect server on this machine's loopback, from the jars that pyspark brings, with Delta.

    with ConnectServer() as server:
        run("kseg", "ingest", "orders.yaml", "--remote", server.url)

Nothing is left behind: when this process ends, however it ends, `kseg.jobs.broker.child` stops the server.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import light_java
from kseg.etl.spark.jvm import light_options
from kseg.etl.spark.session import DELTA_EXTENSIONS
from kseg.jobs.bench.standalone import spark_environment, spark_home
from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST
from kseg.jobs.broker.server import Server

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_TIMEOUT = 120.0
_NAME = "server"


class ConnectServer(Server[str]):
    """One server on a free port, which it keeps when it is started again.

    Args:
        directory: where it keeps its log and its warehouse; None takes a temporary one, which is deleted at stop.
        master: the Spark that it is a driver of.
        python: the Python of its workers. None takes this process's own, and lets workers import what this process
            does: a given one has nothing of ours.
        conf: more ``spark.*`` settings, over what is set here.
        env: more environment, which local workers inherit.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        master: str = "local[2]",
        python: Path | None = None,
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, "connect")
        self._master, self._python = master, python
        self._conf, self._env = dict(conf or {}), dict(env or {})
        self._port = 0

    @property
    def url(self) -> str:
        """``sc://host:port``: for ``--remote`` and ``SPARK_REMOTE``."""
        return f"sc://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Of the server, while it runs."""
        return self.pids.get(_NAME)

    @property
    def log(self) -> Path:
        return self.directory / f"{_NAME}.log"

    def _start(self) -> None:
        self._port = self._port or free_ports(1)[0]
        given = [word for key, value in self._settings().items() for word in ("--conf", f"{key}={value}")]
        command = [str(spark_home() / "bin" / "spark-submit"), "--class", _MAIN, *given, "spark-internal"]
        # A folder of settings that is there would begin the class path, which the archive of classes would not fit.
        nowhere = self.directory / "settings"
        launcher = {"SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", "")}
        self._launch(_NAME, command, spark_environment(nowhere, self._python) | launcher | self._env)
        children = {"Spark's Connect server": self._processes[_NAME]}
        await_ready(children, self._takes_connections, within=_START_TIMEOUT)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL); `start` brings another one up at the same address."""
        self._end([_NAME], signal.SIGKILL)

    # Inside

    def _settings(self) -> dict[str, str]:
        return {
            "spark.master": self._master,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "1g",
            # Not `extraClassPath`: the archive of classes fits the class path that it was made with.
            "spark.jars": jars.class_path(jars.DELTA).replace(os.pathsep, ","),
            "spark.driver.extraJavaOptions": " ".join([*light_options(), f"-Dderby.system.home={self.directory}"]),
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
            **light_java.INTERPRETED,
            **DELTA_EXTENSIONS,
            **self._conf,
        }

    def _takes_connections(self) -> bool:
        try:
            with socket.create_connection((HOST, self._port), timeout=5):
                return True
        except OSError:
            return False
