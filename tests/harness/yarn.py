"""A real YARN on this machine's loopback: a resource manager and a node manager, without HDFS.

    with Yarn() as yarn:
        run("spark-submit", "--master", "yarn", …, env={"HADOOP_CONF_DIR": str(yarn.conf_dir)})

Both are Hadoop's own, out of the jar that its mini cluster comes in, beside the two Hadoop jars that pyspark brings.
One directory holds everything: ``conf/`` (what clients are told), ``resource-manager.log``, ``node-manager.log``,
``logs/`` of containers, ``staging/`` in place of a home folder in HDFS.

Nothing is left behind: when this process ends, however it ends, `kseg.jobs.broker.child` stops both; with the node
manager go its containers.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from kseg.jobs.bench.standalone import SMALL_JVM, spark_environment, spark_home
from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST
from kseg.jobs.broker.server import Server

_MAINS = {
    "resource-manager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "node-manager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_ADDRESSES = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "resourcemanager.webapp.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.webapp.address",
    "nodemanager.collector-service.address",
)
_OF_SPARK = ("hadoop-client-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "jakarta.servlet-api-*.jar", "javax.*.jar")
_START_TIMEOUT = 120.0


class Yarn(Server[str]):
    """One resource manager and one node manager on free ports.

    Args:
        directory: where to keep everything; None takes a temporary one, which is deleted at stop.
        memory: megabytes that containers may have in all.
        python: the Python that is first on containers' PATH; None takes this process's own.
    """

    def __init__(self, directory: Path | None = None, *, memory: int = 4096, python: Path | None = None) -> None:
        super().__init__(directory, "yarn")
        self._memory, self._python = memory, python
        self._addresses: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The resource manager's web address; its REST API is below ``/ws/v1/cluster``."""
        return f"http://{self._addresses['resourcemanager.webapp.address']}"

    @property
    def conf_dir(self) -> Path:
        """For ``HADOOP_CONF_DIR``."""
        return self.directory / "conf"

    @property
    def logs(self) -> Path:
        """What containers wrote, by application and container."""
        return self.directory / "logs"

    @property
    def spark_conf(self) -> dict[str, str]:
        """What spark-submit is told: Spark's jars lie where containers run, and nothing is to be copied there."""
        staging = {"spark.yarn.stagingDir": (self.directory / "staging").as_uri()}
        return staging | {"spark.yarn.jars": f"local:{spark_home()}/jars/*"}

    def application(self, application_id: str) -> dict[str, Any]:
        """What the resource manager tells of an application: ``state``, ``finalStatus`` and more. Raises OSError."""
        told: dict[str, Any] = self._ask(f"apps/{application_id}")["app"]
        return told

    def kill(self, name: str) -> None:
        """End ``resource-manager`` or ``node-manager`` as a power cut would (SIGKILL)."""
        self._end([name], signal.SIGKILL)

    # Inside

    def _start(self) -> None:
        for name in ("conf", "logs", "local", "staging"):
            (self.directory / name).mkdir(exist_ok=True)
        ports = free_ports(len(_ADDRESSES))
        self._addresses = {name: f"{HOST}:{port}" for name, port in zip(_ADDRESSES, ports, strict=True)}
        (self.conf_dir / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
        spark = [str(path) for pattern in _OF_SPARK for path in sorted((spark_home() / "jars").glob(pattern))]
        class_path = os.pathsep.join([str(self.conf_dir), jars.class_path(jars.YARN), *spark])
        java = [find_java().command, "-Xmx256m", *SMALL_JVM, "-cp", class_path]
        env = spark_environment(self.conf_dir, self._python) | {"HADOOP_CONF_DIR": str(self.conf_dir)}
        # Containers' shells begin with a PATH of their own: only what the node manager insists on is laid over it.
        (self.conf_dir / "yarn-site.xml").write_text(_xml(self._settings(env["PATH"])))
        for name, main in _MAINS.items():
            self._launch(name, [*java, main], env)
        await_ready(self._processes, self._has_a_node, within=_START_TIMEOUT)

    def _settings(self, path: str) -> dict[str, str]:
        return {f"yarn.{name}": address for name, address in self._addresses.items()} | {
            "yarn.resourcemanager.hostname": HOST,
            "yarn.nodemanager.hostname": HOST,
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.resourcemanager.connect.max-wait.ms": "20000",
            "yarn.nodemanager.local-dirs": str(self.directory / "local"),
            "yarn.nodemanager.log-dirs": str(self.logs),
            "yarn.nodemanager.delete.debug-delay-sec": "86400",  # logs are read after the end
            "yarn.nodemanager.resource.memory-mb": str(self._memory),
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            # A developer's disk is fuller than a cluster's.
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,SPARK_HOME,LANG,TZ",
            "yarn.nodemanager.admin-env": f"MALLOC_ARENA_MAX=4,PATH={path}",
        }

    def _has_a_node(self) -> bool:
        try:
            nodes = (self._ask("nodes")["nodes"] or {}).get("node") or []
        except OSError:
            return False
        return any(node["state"] == "RUNNING" for node in nodes)

    def _ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/ws/v1/cluster/{path}", timeout=10) as answer:
            told: dict[str, Any] = json.load(answer)
        return told


def _xml(settings: dict[str, str]) -> str:
    lines = (
        f"<property><name>{escape(key)}</name><value>{escape(text)}</value></property>"
        for key, text in settings.items()
    )
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])
