"""A real Livy on this machine's loopback, which hands batches to Spark; without what it starts for notebooks.

    with Livy("spark://127.0.0.1:7077") as livy:
        requests.post(f"{livy.url}/batches", json={"file": "/path/of/application.py"})

The newest Livy whose jars are published as such is 0.7.1, of 2021; its parts are of Scala 2.11, and its Hadoop is the
one that pyspark brings. It knows Spark up to 2.4 and warns of a newer one, which for batches does not matter: they are
`spark-submit`'s business.

One directory holds everything: ``livy.log``, ``conf/``, ``logs/`` of requests. The working directory of drivers is that
one too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kseg.jobs.bench.standalone import SMALL_JVM, spark_environment, spark_home
from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST
from kseg.jobs.broker.server import Server

_MAIN = "org.apache.livy.server.LivyServer"
_OF_SPARK = "hadoop-client-*.jar"
_START_TIMEOUT = 120.0
_LOG4J = """log4j.rootCategory=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class Livy(Server[str]):
    """One Livy server on a free port.

    Args:
        master: where its batches run: ``spark://…`` or ``local[…]``.
        directory: where to keep everything; None takes a temporary one, which is deleted at stop.
        python: of drivers and their workers where a batch names none. None takes this process's own, and lets drivers
            import what this process does: a given one has nothing of ours.
        conf: more ``livy.*`` settings.
    """

    def __init__(
        self,
        master: str = "local[1]",
        directory: Path | None = None,
        *,
        python: Path | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, "livy")
        self._master, self._python, self._conf = master, python, dict(conf or {})
        self._port = 0
        self._sessions: set[int] = set()

    @property
    def url(self) -> str:
        """``http://host:port``; ``/batches`` below it is the REST API."""
        return f"http://{HOST}:{self._port}"

    def batches(self) -> list[dict[str, Any]]:
        """What it tells of all batches that it has: ``id``, ``name``, ``state``, ``log`` and more. Raises OSError."""
        found: list[dict[str, Any]] = self._ask("GET", "batches?size=1000")["sessions"]
        return found

    def _leave(self, how: signal.Signals) -> None:
        """The drivers too that it has started, which by itself it would leave behind."""
        super()._leave(how)
        for session in self._sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGTERM)
        self._sessions.clear()

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL), with its drivers alive; `start` starts it again in the same place."""
        self._end(["livy"], signal.SIGKILL)

    # Inside

    def _start(self) -> None:
        conf = self.directory / "conf"
        for folder in (conf, self.directory / "logs"):
            folder.mkdir(exist_ok=True)
        self._port = self._port or free_ports(1)[0]
        settings = {
            "livy.server.host": HOST,
            "livy.server.port": str(self._port),
            "livy.spark.master": self._master,
            "livy.file.local-dir-whitelist": "/",
        }
        (conf / "livy.conf").write_text("".join(f"{key} = {text}\n" for key, text in (settings | self._conf).items()))
        (conf / "log4j.properties").write_text(_LOG4J)
        of_spark = map(str, sorted((spark_home() / "jars").glob(_OF_SPARK)))
        class_path = os.pathsep.join([str(conf), jars.class_path(jars.LIVY), *of_spark])
        env = spark_environment(conf, self._python) | {"LIVY_HOME": str(self.directory), "LIVY_CONF_DIR": str(conf)}
        self._launch("livy", [find_java().command, "-Xmx256m", *SMALL_JVM, "-cp", class_path, _MAIN], env)
        self._sessions.add(self._processes["livy"].pid)
        await_ready({"Livy": self._processes["livy"]}, self._answers, within=_START_TIMEOUT)

    def _answers(self) -> bool:
        try:
            self._ask("GET", "version")
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            told: dict[str, Any] = json.load(answer)
        return told
