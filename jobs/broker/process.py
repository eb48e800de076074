"""A real Apache Kafka (KRaft) on this machine's loopback, for trying things out, the demo and the tests.

    with EmbeddedKafka() as kafka:
        use(kafka.bootstrap_servers)

One directory holds everything: ``node-1/`` (``server.properties``, ``broker.log``, ``data/`` with the segments) and so
on. A directory that was formatted before is started as it is, so topics outlive a stop.

Nothing is left behind: when this process goes, however it goes, each node's watcher stops it (``child.py``).
``detached=True`` sends the watchers away once all nodes are up: these live until they are stopped (``kseg broker``).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kseg.jobs.broker import jars
from kseg.jobs.broker.child import await_ready, run_logged
from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.listeners import Listener, scram_arguments
from kseg.jobs.broker.ports import free_ports, is_free, on_free_ports
from kseg.jobs.broker.probe import live_brokers
from kseg.jobs.broker.properties import HOST, LOG4J, EmbeddedNode, new_cluster_id, server_properties, to_text
from kseg.jobs.broker.server import Server
from kseg.jobs.broker.shared_classes import archive_options

VERSION = jars.KAFKA.removeprefix("kafka-")

#: Far more than a start takes: a machine may be busy, and a node that ends while it starts is noticed at once.
_START_TIMEOUT = 180.0


#: Else the controller writes, and syncs to the disk, a record of nothing twice a second.
_RESTING = {"metadata.max.idle.interval.ms": "0"}


class EmbeddedKafka(Server[int]):
    """One to many combined nodes on free ports.

    Args:
        directory: where to keep everything; None takes a temporary one, which is deleted at stop.
        nodes: how many brokers.
        port: where the first of them listens; None takes its former one, else a free one.
        features: feature levels to format with, such as ``{"transaction.version": 1}``; the rest are the release's.
        config: broker settings over the defaults, the same for every node.
        heap: each JVM's heap.
        light: compile lightly, and let an idle controller rest: a start takes a third less CPU, a long load runs
            slower. For tests.
        detached: let the nodes outlive this process.
        listeners: more listeners than the PLAINTEXT one, with TLS or SASL (``servers_of`` has their addresses).
        scram: users and their passwords, known to SCRAM-SHA-256 and -512 from the first start on.
        jvm: more options for each JVM.
    """

    stop_timeout = 30.0
    first_goes_last = False  # a quorum is needed to go in order

    def __init__(
        self,
        directory: Path | None = None,
        *,
        nodes: int = 1,
        port: int | None = None,
        features: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        heap: str = "512m",
        light: bool = False,
        start_timeout: float = _START_TIMEOUT,
        detached: bool = False,
        listeners: Sequence[Listener] = (),
        scram: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: there must be at least one")
        super().__init__(directory, "kafka")
        self.version = VERSION
        self._count = nodes
        self._port = port
        self._features = dict(features or {})
        self._config = {**(_RESTING if light else {}), **(config or {})}
        self._heap = heap
        self._options = [*jvm, *(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if light else [])]
        self._listeners = tuple(listeners)
        self._scram = dict(scram or {})
        self._start_timeout = start_timeout
        self._detached = detached
        self._nodes: tuple[EmbeddedNode, ...] = ()

    # What is running

    @property
    def nodes(self) -> tuple[EmbeddedNode, ...]:
        return self._nodes

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node, running or not, by comma."""
        return ",".join(f"{HOST}:{node.port}" for node in self._nodes)

    def servers_of(self, listener: str) -> str:
        """``host:port`` of every node, as the listener of this name is advertised."""
        at = [one.name for one in self._listeners].index(listener)
        host = self._listeners[at].advertised or HOST
        return ",".join(f"{host}:{node.listener_ports[at]}" for node in self._nodes)

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """Each node's ``log.dirs``, in the order of ``nodes``."""
        return tuple(node.log_dir for node in self._nodes)

    # One node

    def kill(self, node: int) -> None:
        """End one node as a power cut would (SIGKILL). Its port stays its own, for ``restart``."""
        self._end([node], signal.SIGKILL)

    def stop_node(self, node: int) -> None:
        """Stop one node cleanly."""
        self._end([node], signal.SIGTERM)

    def restart(self, node: int) -> None:
        """Start a node again after ``kill`` or ``stop_node``; returns when all nodes that run know each other."""
        if node in self.pids:
            self._end([node], signal.SIGTERM)
        self._launch_node(self._node(node))
        self._await_ready([one for one in self._nodes if one.id in self.pids], expected=set(self.pids))

    # Inside

    def _start(self) -> None:
        """Format what is new, start all nodes, and return when each of them knows all of them."""
        jars.ensure(jars.KAFKA)
        on_free_ports(self._start_on_free_ports, lambda: self._end_all(signal.SIGKILL))

    def _node(self, number: int) -> EmbeddedNode:
        return next(node for node in self._nodes if node.id == number)

    def _start_on_free_ports(self) -> None:
        each = 2 + len(self._listeners)
        ports = free_ports(each * self._count)
        self._nodes = tuple(
            _node(number + 1, ports[each * number : each * (number + 1)], self.directory)
            for number in range(self._count)
        )
        self._nodes = tuple(_with_former_ports(node) for node in self._nodes)
        if self._port is not None:
            if not is_free(self._port):
                raise StartFailed(f"Port {self._port} is in use by another program.", remedy="Give another --port.")
            self._nodes = (replace(self._nodes[0], port=self._port), *self._nodes[1:])
        for node in self._nodes:
            node.directory.mkdir(parents=True, exist_ok=True)
            properties = server_properties(node, self._nodes, self._config, self._listeners)
            node.properties_file.write_text(to_text(properties))
            (node.directory / "log4j2.properties").write_text(LOG4J)
        self._format([node for node in self._nodes if not (node.log_dir / "meta.properties").exists()])
        for node in self._nodes:
            self._launch_node(node)
        self._await_ready(self._nodes, expected={node.id for node in self._nodes})

    def _format(self, nodes: Sequence[EmbeddedNode]) -> None:
        if not nodes:
            return
        arguments = ["--cluster-id", self._cluster_id()]
        for feature, level in self._features.items():
            arguments += ["--feature", f"{feature}={level}"]
        arguments += scram_arguments(self._scram)
        if self._count == 1:
            arguments.append("--standalone")
        with ThreadPoolExecutor(len(nodes)) as pool:
            for _ in pool.map(lambda node: self._format_one(node, arguments), nodes):
                pass

    def _format_one(self, node: EmbeddedNode, arguments: Sequence[str]) -> None:
        command = self._java(node, "128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        command += ["kafka.tools.StorageTool", "format", "--config", str(node.properties_file), *arguments]
        run_logged(command, node.log_file, f"Node {node.id} could not be formatted")

    def _cluster_id(self) -> str:
        """The one that other nodes of this directory have already, else a new one."""
        for node in self._nodes:
            meta = node.log_dir / "meta.properties"
            if meta.exists():
                lines = dict(line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
                return lines["cluster.id"]
        return new_cluster_id()

    def _java(self, node: EmbeddedNode, heap: str, *options: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={(node.directory / 'log4j2.properties').as_uri()}"
        java = find_java()
        given = [f"-Xmx{heap}", *archive_options(java), *options, logging]
        return [java.command, *given, "-cp", jars.class_path(jars.KAFKA)]

    def _launch_node(self, node: EmbeddedNode) -> None:
        command = [*self._java(node, self._heap, *self._options), "kafka.Kafka", str(node.properties_file)]
        self._launch(node.id, command, log_file=node.log_file)

    def _await_ready(self, nodes: Sequence[EmbeddedNode], *, expected: set[int]) -> None:
        # All of them: the first one may wait for the quorum of one that has ended, because its port was taken.
        children = {f"Node {node.id}": self._processes[node.id] for node in nodes}
        for node in nodes:

            def knows_all(port: int = node.port) -> bool:
                return (live_brokers(port) or frozenset()) >= expected

            await_ready(children, knows_all, within=self._start_timeout)
        if self._detached:
            for node in nodes:
                self._processes[node.id].leave_running()


def _node(number: int, ports: Sequence[int], directory: Path) -> EmbeddedNode:
    return EmbeddedNode(number, ports[0], ports[1], directory / f"node-{number}", tuple(ports[2:]))


def _with_former_ports(node: EmbeddedNode) -> EmbeddedNode:
    """A node that ran here before keeps its ports where they are still free: its clients find it again."""
    if not node.properties_file.exists():
        return node
    for line in node.properties_file.read_text().splitlines():
        if line.startswith("listeners="):
            ports = [int(part.rsplit(":", 1)[1]) for part in line.split(",")]
            if len(ports) == 2 + len(node.listener_ports) and all(map(is_free, ports)):
                return _node(node.id, ports, node.directory.parent)
    return node
