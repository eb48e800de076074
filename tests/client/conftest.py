"""What the client's tests share: a cluster on the real broker, and scripted brokers on real sockets.

The scripted ones do what a live broker cannot be made to do; they stand in `scripted/`. Under pytest's importlib mode
no test can import them, so everything comes through the fixture `fakes`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from uuid import UUID

import pytest

from kseg.client import ClientConfig, Cluster


def _scripted(name: str) -> ModuleType:
    path = Path(__file__).parent / "scripted" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"scripted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_answers, _broker, _cluster, _group, _sessions = map(_scripted, ("answers", "broker", "cluster", "group", "sessions"))
FakeBroker = _broker.FakeBroker


class Broker(Protocol):
    """The real broker, as far as these tests need it."""

    bootstrap_servers: str

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


@dataclass(frozen=True)
class FakeTools:
    """All that there is for scripting brokers.

    `start()` gives one more broker, `cluster(n)` n of them that tell the same, `group(broker, size=1)` a classic group
    on one of them, `sessions(broker, logs)` fetch sessions; `answers` has ready-made handlers.
    """

    start: Callable[[], Any]
    CLOSE: object = _broker.CLOSE
    SILENT: object = _broker.SILENT
    TOPIC_ID: UUID = _broker.TOPIC_ID
    framed: Callable[[bytes], bytes] = _broker.framed
    answers: ModuleType = _answers
    group: Callable[..., Any] = _group.ScriptedGroup
    sessions: Callable[..., Any] = _sessions.ScriptedSessions

    def cluster(self, count: int) -> Any:
        return _cluster.ScriptedCluster(self.start, count)


@pytest.fixture
def fakes() -> Iterator[FakeTools]:
    """Starts scripted brokers (`fakes.start()`), and stops them all."""
    started: list[Any] = []

    def start() -> Any:
        started.append(FakeBroker())
        return started[-1]

    yield FakeTools(start)
    for broker in started:
        broker.stop()


@pytest.fixture
def fake(fakes: FakeTools) -> Any:
    """One scripted broker."""
    return fakes.start()


@pytest.fixture
def connect() -> Iterator[Callable[..., Cluster]]:
    """`connect(bootstrap_servers, **properties)` gives a cluster; underscores in names stand for dots.

    Without servers ("") the properties have to say where to begin.
    """
    clusters: list[Cluster] = []

    def make(bootstrap_servers: str, client_id: str = "kseg-tests", **properties: object) -> Cluster:
        given = {name.replace("_", "."): str(value) for name, value in properties.items()}
        servers = {"bootstrap.servers": bootstrap_servers} if bootstrap_servers else {}
        config = ClientConfig.from_properties(servers | given, client_id=client_id)
        clusters.append(Cluster(config))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def cluster(kafka: Broker, connect: Callable[..., Cluster]) -> Cluster:
    """A cluster on the real broker."""
    return connect(kafka.bootstrap_servers)
