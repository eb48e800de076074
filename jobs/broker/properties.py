"""``server.properties`` of the embedded nodes, and the text form that Kafka reads."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kseg.jobs.broker.listeners import Listener, listener_properties

HOST = "127.0.0.1"

LOG4J = """status = error
appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %m (%c{1})%n%throwable
rootLogger.level = info
rootLogger.appenderRef.console.ref = Console
"""


@dataclass(frozen=True)
class EmbeddedNode:
    """One combined broker and controller: its id (from 1), its loopback ports, and its folder.

    listener_ports: those of the listeners that it has beside PLAINTEXT, in their order.
    """

    id: int
    port: int
    controller_port: int
    directory: Path
    listener_ports: tuple[int, ...] = ()

    @property
    def log_dir(self) -> Path:
        """Kafka's ``log.dirs``: one folder for each partition, with its segments."""
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        """The output of the process, over all its starts."""
        return self.directory / "broker.log"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"


def server_properties(
    node: EmbeddedNode, nodes: Sequence[EmbeddedNode], extra: Mapping[str, str], listeners: Sequence[Listener] = ()
) -> dict[str, str]:
    """The settings of one node; ``extra`` goes over them, with ``{node}`` and ``{directory}`` for this node's own.

    ``listeners``: those beside PLAINTEXT and CONTROLLER.

    A lone node elects itself a dynamic quorum; several are a static one, whose nodes can be formatted one by one.
    Replication is as high as the number of nodes allows, up to three; the internal topics have few partitions, since
    fifty each would be most of a small broker's files and of its start.
    """
    replicas = str(min(3, len(nodes)))
    in_sync = "2" if len(nodes) > 2 else "1"
    controllers = [f"{HOST}:{other.controller_port}" for other in nodes]
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(node.log_dir),
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A first join would else wait 3 s for others, and the cleaner would take 128 MB.
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "auto.create.topics.enable": "false",
    }
    if len(nodes) == 1:
        properties["controller.quorum.bootstrap.servers"] = controllers[0]
    else:
        voters = [f"{other.id}@{at}" for other, at in zip(nodes, controllers, strict=True)]
        properties["controller.quorum.voters"] = ",".join(voters)
    more = listener_properties(listeners, node.listener_ports, HOST)
    for name in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        properties[name] = ",".join(filter(None, [properties[name], more.get(name, "")]))
    return more | properties | {key: _at(node, value) for key, value in extra.items()}


def _at(node: EmbeddedNode, value: str) -> str:
    return value.replace("{node}", str(node.id)).replace("{directory}", str(node.directory))


def to_text(properties: Mapping[str, str]) -> str:
    """A Java properties file; backslashes and line ends are escaped, so that any value survives."""
    lines = [f"{key}={_escape(value)}" for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "\\" + escaped if escaped[:1] in {" ", "\t"} else escaped


def new_cluster_id() -> str:
    """A cluster id as Kafka's tools make them: a UUID in URL-safe base64, which does not look like an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A", 1)
