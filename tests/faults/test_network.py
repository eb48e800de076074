"""A network that is slow, breaks and swallows, between drivers and all servers: every record lands once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from fault_suite import network
from kafkas import PATIENCE
from kseg.jobs.broker.listeners import Listener
from kseg.jobs.broker.process import EmbeddedKafka
from skips import full_scale_only
from tcp_proxy import BEHIND, FRONT, TcpProxy


@pytest.fixture
def brokers() -> Iterator[EmbeddedKafka]:
    """Two nodes, so that one of them can be out of reach, which drivers know by the proxy's address."""
    front = Listener("FRONT", "PLAINTEXT", advertised=FRONT)
    with EmbeddedKafka(nodes=2, heap="256m", light=True, start_timeout=PATIENCE, listeners=[front]) as started:
        yield started
        for node in started.pids:
            started.kill(node)


@full_scale_only
@pytest.mark.slow
def test_network(
    suite: Callable[..., Any],
    brokers: EmbeddedKafka,
    s3: Any,
    schema_registry: Any,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry_port = urlsplit(schema_registry.url).port
    assert registry_port is not None
    broker_ports = [port for node in brokers.nodes for port in node.listener_ports]
    environment = {**s3.environment, "AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": s3.endpoint.replace(BEHIND, FRONT)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    name = uuid.uuid4().hex[:8]
    (s3.folder / name / "lake").mkdir(parents=True)
    with TcpProxy([*broker_ports, s3.port, registry_port]) as proxy:
        world = suite(
            brokers.bootstrap_servers,
            network.LANES,
            network.Network(proxy, broker_ports, s3.port, registry_port).perform,
            allowed=network.ALLOWED,
            root=f"s3://logs/{name}",
            seen_at=s3.folder / name,
            environment=environment,
            driver_servers=brokers.servers_of("FRONT"),
            registry=schema_registry.url,
            driver_registry=schema_registry.url.replace(urlsplit(schema_registry.url).hostname, FRONT),
            restore=lambda _: proxy.heal(),
        )
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
