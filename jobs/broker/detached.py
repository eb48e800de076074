"""A Kafka that outlives the command that started it: ``kseg broker start``, ``status``, ``stop``.

``broker.json`` in its directory lists what was started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from kseg.etl.spark.cache import cache_root
from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.probe import live_brokers
from kseg.jobs.broker.process import VERSION, EmbeddedKafka
from kseg.jobs.broker.started import began, end, live_process
from kseg.jobs.output.files import write_atomically


@dataclass(frozen=True)
class RunningNode:
    """One node as it was started. ``began`` is the process's creation time, in seconds since the epoch."""

    id: int
    pid: int
    began: float
    port: int
    log_dir: str
    log_file: str

    def process(self) -> psutil.Process | None:
        """Its process; None when that has ended."""
        return live_process(self.pid, self.began)


@dataclass(frozen=True)
class BrokerState:
    """The content of ``broker.json``, and which of its processes are alive."""

    directory: str
    version: str
    bootstrap_servers: str
    nodes: tuple[RunningNode, ...]

    @property
    def running(self) -> tuple[RunningNode, ...]:
        return tuple(node for node in self.nodes if node.process() is not None)

    @property
    def answering(self) -> bool:
        """Whether every node answers and knows all others."""
        expected = {node.id for node in self.nodes}
        return all((live_brokers(node.port) or frozenset()) >= expected for node in self.nodes)


def default_directory() -> Path:
    """``broker`` in the cache."""
    return cache_root() / "broker"


def start(
    directory: Path,
    *,
    nodes: int | None = None,
    port: int | None = None,
    features: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
) -> tuple[BrokerState, bool]:
    """Start a Kafka in a directory, or find the one that runs there.

    nodes: None means as many as the directory holds already, else one. port: of the first; of one that runs already it
    is not changed.
    Returns its state, and whether it was started now. Raises LocalServerError where the directory holds another number.
    """
    former = read(directory)
    held = sum(1 for _ in directory.glob("node-*/data/meta.properties"))
    nodes = nodes or held or 1
    if held not in (0, nodes):
        raise LocalServerError(
            f"{directory} holds a cluster of {held}, not {nodes}.",
            remedy=f"Start it with --brokers {held}, take another --dir, or delete the directory.",
        )
    if former and former.running:
        if len(former.running) == len(former.nodes):
            return former, False
        stop(directory)
    kafka = EmbeddedKafka(directory, nodes=nodes, port=port, features=features, config=config, detached=True).start()
    pids = kafka.pids
    state = BrokerState(
        str(directory.absolute()),
        VERSION,
        kafka.bootstrap_servers,
        tuple(
            RunningNode(
                node.id,
                pids[node.id],
                began(pids[node.id]),
                node.port,
                str(node.log_dir),
                str(node.log_file),
            )
            for node in kafka.nodes
        ),
    )
    write_atomically(_file(directory), json.dumps(asdict(state), indent=2) + "\n")
    return state, True


def read(directory: Path) -> BrokerState | None:
    """The state of the Kafka last started in a directory; None if there was none, or it was stopped in order."""
    try:
        found = json.loads(_file(directory).read_text())
    except FileNotFoundError:
        return None
    nodes = tuple(RunningNode(**node) for node in found.pop("nodes"))
    return BrokerState(**found, nodes=nodes)


def stop(directory: Path) -> bool:
    """Stop what runs in a directory, by force after 30 s; its topics stay. Returns whether anything ran."""
    state = read(directory)
    processes = [process for node in state.running if (process := node.process())] if state else []
    end(processes)
    _file(directory).unlink(missing_ok=True)
    return bool(processes)


def _file(directory: Path) -> Path:
    return directory / "broker.json"
