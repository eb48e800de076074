"""A real Schema Registry (Apicurio, with Confluent's REST API) on this machine's loopback.

    with EmbeddedRegistry() as registry:
        use(registry.url)

Its schemas are kept in an H2 database in its directory, or in memory.
"""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path

from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports, on_free_ports
from kseg.jobs.broker.properties import HOST
from kseg.jobs.broker.server import Server

VERSION = jars.APICURIO.removeprefix("apicurio-")
#: Where Apicurio has Confluent's API, version 7.
BASE_PATH = "/apis/ccompat/v7"
_START_TIMEOUT = 180.0


class EmbeddedRegistry(Server[str]):
    """One registry.

    Args:
        directory: where to keep log and schemas; None takes a temporary one, which is deleted at stop.
        port: where to listen; None takes a free one.
        detached: let it outlive this process.
        light: compile lightly: a start takes less CPU. For tests.
    """

    def __init__(
        self, directory: Path | None = None, *, port: int | None = None, detached: bool = False, light: bool = False
    ) -> None:
        super().__init__(directory, "registry")
        self._wanted = port
        self._detached = detached
        self._options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if light else []
        self.port = 0

    @property
    def url(self) -> str:
        """The value of ``schema.registry.url`` for clients."""
        return f"http://{HOST}:{self.port}{BASE_PATH}"

    @property
    def log_file(self) -> Path:
        return self.directory / "registry.log"

    def _start(self) -> None:
        jars.ensure(jars.APICURIO)
        on_free_ports(self._launch_registry, lambda: self._end_all(signal.SIGKILL))

    def _launch_registry(self) -> None:
        self.port = self._wanted or free_ports(1)[0]
        folder = jars.directory(jars.APICURIO) / jars.locked_sets()[jars.APICURIO][0].kept
        database = f"jdbc:h2:file:{self.directory / 'schemas'}"
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": database,
            "quarkus.banner.enabled": "false",
        }
        command = [find_java().command, "-Xmx512m", *self._options]
        command += [f"-D{name}={value}" for name, value in settings.items()]
        command += ["-jar", str(folder / f"apicurio-registry-app-{VERSION}-runner.jar")]
        self._launch("registry", command, log_file=self.log_file)
        child = self._processes["registry"]
        await_ready({"The registry": child}, lambda: answers(self.port), within=_START_TIMEOUT)
        if self._detached:
            child.leave_running()


def answers(port: int) -> bool:
    """Whether a registry answers on the port."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", f"{BASE_PATH}/subjects")
        response = connection.getresponse()
        return response.status == 200 and isinstance(json.loads(response.read()), list)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
