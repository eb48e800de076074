"""Other releases of Kafka, one node each: what our client has to get along with, from 0.9 to 3.9.

    with OtherKafka("0.10.2.2") as kafka:
        kafka.create_topic("old", partitions=2)
        use(kafka.bootstrap_servers)

Every one of them starts on Java 17. Those before 3.9 need a ZooKeeper, which is started beside the broker from the
same jars; 3.9.2 runs without one, and as "3.9.2-zookeeper" with one and the message formats of the releases before 3.0
(topic configuration `message.format.version=0.9.0` stores format 0, `0.10.0` format 1, `2.8` format 2).

From 0.10 on a second listener speaks SASL over an open connection (`sasl_servers`; unless told otherwise PLAIN, user
alice, password alice-secret), and from 1.1 on there are an authorizer, to which everybody here is a super user, and
delegation tokens: every API that a release has can be tried on it.

Jars are fetched when a release is first started, not by `make setup`.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready, run_logged
from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports, on_free_ports
from kseg.jobs.broker.probe import live_brokers, partition_leaders
from kseg.jobs.broker.properties import HOST, EmbeddedNode, new_cluster_id, server_properties, to_text
from kseg.jobs.broker.server import Server
from zookeeper import ZooKeeper

_START_TIMEOUT = 90.0

_LOG4J = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c{1})%n
"""
_JAAS = """KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
  username="broker" password="broker-secret" user_broker="broker-secret" user_alice="alice-secret";
};
"""
_AUTHORIZER = "authorizer.class.name"
_SECURED = {
    "super.users": "User:ANONYMOUS;User:alice",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.master.key": "a secret that lives as long as this broker",
}
_WITHOUT_SASL = "0.9.0.1"  # has Kerberos alone
_SMALL_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@dataclass(frozen=True)
class Release:
    """One release as it is run here: its jar set, whether it keeps its state in ZooKeeper, settings of its own."""

    jar_set: str
    zookeeper: bool
    config: Mapping[str, str] = field(default_factory=dict)


RELEASES: Final[Mapping[str, Release]] = {
    "0.9.0.1": Release("kafka-0.9.0.1", zookeeper=True),
    "0.10.2.2": Release("kafka-0.10.2.2", zookeeper=True),
    "1.1.1": Release(
        "kafka-1.1.1", zookeeper=True, config=_SECURED | {_AUTHORIZER: "kafka.security.auth.SimpleAclAuthorizer"}
    ),
    "2.8.2": Release(
        "kafka-2.8.2", zookeeper=True, config=_SECURED | {_AUTHORIZER: "kafka.security.authorizer.AclAuthorizer"}
    ),
    "3.9.2-zookeeper": Release(
        "kafka-3.9.2",
        zookeeper=True,
        config=_SECURED
        | {
            _AUTHORIZER: "kafka.security.authorizer.AclAuthorizer",
            "inter.broker.protocol.version": "2.8",
            "log.message.format.version": "2.8",
        },
    ),
    "3.9.2": Release(
        "kafka-3.9.2",
        zookeeper=False,
        config=_SECURED | {_AUTHORIZER: "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
    ),
}


class OtherKafka(Server[str]):
    """One broker of another release, in a temporary directory, on free loopback ports.

    Args:
        version: a key of `RELEASES`.
        config: broker settings over the defaults here. Topics are created on demand, as Kafka does by default.
        heap: the broker's heap.
        sasl: the content of a JAAS file for the broker; it then also listens with SASL_PLAINTEXT (`sasl_servers`).
    """

    def __init__(
        self, version: str, *, config: Mapping[str, str] | None = None, heap: str = "384m", sasl: str | None = None
    ) -> None:
        if version not in RELEASES:
            raise ValueError(f"version={version!r}: known are {', '.join(RELEASES)}")
        super().__init__(None, f"kafka-{version}")
        self.version = version
        self.release = RELEASES[version]
        self.zookeeper_port: int | None = None
        self._config = dict(config or {})
        self._heap = heap
        self._sasl = _JAAS if sasl is None and version != _WITHOUT_SASL else sasl
        self._node: EmbeddedNode | None = None

    @property
    def node(self) -> EmbeddedNode:
        if self._node is None:
            raise RuntimeError("not started")
        return self._node

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.node.port}"

    @property
    def sasl_servers(self) -> str:
        """Where it listens with SASL."""
        return f"{HOST}:{self.node.listener_ports[0]}"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """The broker's ``log.dirs``: one folder for each partition."""
        return (self.node.log_dir,)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, timeout: float = 30.0
    ) -> None:
        """Create a topic through ZooKeeper, as these releases' own tools do, and wait until all its leaders are told.

        Raises LocalServerError: it is there already, it did not come in time, or there is no ZooKeeper: use a client.
        """
        with self.zookeeper() as zookeeper:
            if config:
                settings = json.dumps({"version": 1, "config": dict(config)})
                zookeeper.create(f"/config/topics/{name}", settings.encode())
            assignment = {"version": 1, "partitions": {str(number): [self.node.id] for number in range(partitions)}}
            if not zookeeper.create(f"/brokers/topics/{name}", json.dumps(assignment).encode()):
                raise LocalServerError(f"Topic {name} is there already.")
        deadline = time.monotonic() + timeout
        while len(partition_leaders(self.node.port, name)) < partitions:
            if time.monotonic() > deadline:
                raise LocalServerError(f"Topic {name} has no leaders after {timeout:.0f} s.")
            time.sleep(0.05)

    def zookeeper(self) -> ZooKeeper:
        """A session with this Kafka's ZooKeeper. Raises LocalServerError where there is none."""
        if self.zookeeper_port is None:
            raise LocalServerError(f"Kafka {self.version} runs without ZooKeeper here.")
        return ZooKeeper(self.zookeeper_port)

    # Inside

    def _start(self) -> None:
        """Start all of it, and return when the broker knows itself."""
        jars.ensure(self.release.jar_set)
        on_free_ports(self._start_on_free_ports, self._clear)

    def _clear(self) -> None:
        self._end_all(signal.SIGKILL)
        for folder in self.directory.iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def _start_on_free_ports(self) -> None:
        port, second, third = free_ports(3)
        self._node = node = EmbeddedNode(1, port, second, self.directory / "node-1", (third,) if self._sasl else ())
        node.directory.mkdir()
        config = {"sasl.enabled.mechanisms": "PLAIN", **self.release.config, **self._config}
        if self.release.zookeeper:
            self.zookeeper_port = second
            self._start_zookeeper(second)
            properties = _properties_with_zookeeper(node, second, config)
        else:
            here = [f"PLAINTEXT://{HOST}:{port}", *(f"SASL_PLAINTEXT://{HOST}:{at}" for at in node.listener_ports)]
            listeners = {
                "advertised.listeners": ",".join(here),
                "listeners": ",".join([*here, f"CONTROLLER://{HOST}:{second}"]),
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
                ),
            }
            properties = server_properties(replace(node, listener_ports=()), [node], listeners | config)
        node.properties_file.write_text(to_text(properties))
        if not self.release.zookeeper:
            self._format(node)
        jaas = []
        if self._sasl:
            file = node.directory / "jaas.conf"
            file.write_text(self._sasl)
            jaas.append(f"-Djava.security.auth.login.config={file}")
        command = [*self._java(node.directory, self._heap, *jaas), "kafka.Kafka", str(node.properties_file)]
        self._launch("broker", command, log_file=node.log_file)
        self._await("broker", lambda: bool(live_brokers(node.port, version=0)))

    def _start_zookeeper(self, port: int) -> None:
        directory = self.directory / "zookeeper"
        directory.mkdir()
        settings = {
            "dataDir": str(directory / "data"),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "tickTime": "2000",
            "admin.enableServer": "false",  # from 3.5 on it would open another port
        }
        (directory / "zookeeper.properties").write_text(to_text(settings))
        command = [*self._java(directory, "128m"), "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
        self._launch("ZooKeeper", [*command, "zookeeper.properties"], log_file=directory / "zookeeper.log")

        def answers() -> bool:
            try:
                with ZooKeeper(port, timeout=2.0) as session:
                    return session.get("/zookeeper") is not None
            except (OSError, LocalServerError):
                return False

        self._await("ZooKeeper", answers)

    def _format(self, node: EmbeddedNode) -> None:
        command = [*self._java(node.directory, "128m"), "kafka.tools.StorageTool", "format", "--standalone"]
        command += ["--config", str(node.properties_file), "--cluster-id", new_cluster_id()]
        run_logged(command, node.log_file, f"Kafka {self.version} could not be formatted")

    def _java(self, directory: Path, heap: str, *more: str) -> list[str]:
        # In the child's own directory, which its watcher removes: nothing else may lie beside these.
        log4j = directory / "log4j.properties"
        log4j.write_text(_LOG4J)
        options = [
            f"-Xmx{heap}",
            *_SMALL_JVM,
            f"-Dlog4j.configuration={log4j.as_uri()}",
            # ZooKeeper before 3.5 derives a principal from the server's address in a way that Java 14 broke.
            "-Dzookeeper.sasl.client=false",
            *more,
        ]
        return [find_java().command, *options, "-cp", jars.class_path(self.release.jar_set)]

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        await_ready({f"Kafka {self.version}: the {name}": self._processes[name]}, ready, within=_START_TIMEOUT)

    def _leave(self, how: signal.Signals) -> None:
        super()._leave(how)
        self._node = self.zookeeper_port = None


def _properties_with_zookeeper(node: EmbeddedNode, zookeeper_port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """``server.properties`` that every release with ZooKeeper understands; what a release does not know it ignores."""
    sasl = [f"SASL_PLAINTEXT://{HOST}:{port}" for port in node.listener_ports]
    properties = {
        "broker.id": str(node.id),
        "listeners": ",".join([f"PLAINTEXT://{HOST}:{node.port}", *sasl]),
        "log.dirs": str(node.log_dir),
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": "30000",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "num.io.threads": "4",
        "delete.topic.enable": "true",  # the default only since 1.0
        "controlled.shutdown.enable": "false",  # nobody is there to take over
    }
    return properties | dict(extra)
