"""A controller comes to a dynamic quorum, becomes a voter, and is one no more (KIP-853)."""

from __future__ import annotations

import base64
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from java_programs import java_with_kafka
from kseg.client import Cluster
from kseg.client.admin.nodes import add_voter, describe_quorum, remove_voter
from kseg.jobs.broker.child import Child, end_all
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.broker.properties import HOST, LOG4J, to_text

pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Controller:
    """A process that is a controller and nothing else."""

    node_id: int
    directory_id: UUID
    port: int


def settings_of(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture(scope="module")
def dynamic() -> Iterator[EmbeddedKafka]:
    """A node of its own: a lone node is a dynamic quorum, and the tests' shared one is not to depend on another."""
    with EmbeddedKafka(light=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def newcomer(dynamic: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    folder = tmp_path_factory.mktemp("controller")
    (port,) = free_ports(1)
    (first,) = dynamic.nodes
    properties = {
        "process.roles": "controller",
        "node.id": "9",
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{first.controller_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
    }
    (folder / "server.properties").write_text(to_text(properties))
    (folder / "log4j2.properties").write_text(LOG4J)
    logging = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    java = java_with_kafka("-Xmx256m", logging)
    cluster_id = settings_of(first.log_dir)["cluster.id"]
    config = ["--config", str(folder / "server.properties"), "--cluster-id", cluster_id, "--no-initial-controllers"]
    subprocess.run([*java, "kafka.tools.StorageTool", "format", *config], check=True, timeout=300, capture_output=True)
    process = Child(
        [*java, "kafka.Kafka", str(folder / "server.properties")],
        log_file=folder / "controller.log",
        directory=folder,
        remove=False,
    )
    coded = settings_of(folder / "data")["directory.id"]
    yield Controller(9, UUID(bytes=base64.urlsafe_b64decode(coded + "==")), port)
    end_all([process], signal.SIGTERM, 10)


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 300
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_a_controller_becomes_a_voter_and_is_removed(
    dynamic: EmbeddedKafka, newcomer: Controller, connect: Callable[..., Cluster]
) -> None:
    cluster = connect(dynamic.bootstrap_servers)

    def observed() -> bool:
        observers = describe_quorum(cluster).observers
        return (newcomer.node_id, newcomer.directory_id) in [(one.node_id, one.directory_id) for one in observers]

    eventually(observed)
    add_voter(cluster, newcomer.node_id, newcomer.directory_id, [("CONTROLLER", HOST, newcomer.port)])
    quorum = describe_quorum(cluster)
    assert [voter.node_id for voter in quorum.voters] == [1, newcomer.node_id]
    assert quorum.endpoints[newcomer.node_id] == (("CONTROLLER", HOST, newcomer.port),)

    remove_voter(cluster, newcomer.node_id, newcomer.directory_id)
    assert [voter.node_id for voter in describe_quorum(cluster).voters] == [1]
    eventually(observed)
