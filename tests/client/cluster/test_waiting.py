"""A cluster that does not answer is reported after two seconds; what is no Kafka broker, at once and as what it is."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.waiting import WAITING
from kseg.client.config import ClientConfig
from kseg.client.errors import BrokerUnavailable, KafkaError, ProtocolFault, RequestTimedOut


def cluster_at(port: int, timeout_ms: int = 3_000) -> Cluster:
    properties = {
        "bootstrap.servers": f"localhost:{port}",
        "default.api.timeout.ms": str(timeout_ms),
        "request.timeout.ms": str(timeout_ms),
    }
    return Cluster(ClientConfig.from_properties(properties, client_id="test"))


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """The port of a server that answers every connection's first bytes with this, and then closes it; or never."""
    server = socket.create_server(("localhost", 0))
    kept: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            kept.append(connection)
            if answer is not None:
                connection.recv(4096)
                connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for connection in kept:
            connection.close()


def closed_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


def test_a_refused_connection_is_reported_once_while_it_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    port = closed_port()
    with caplog.at_level(logging.WARNING, WAITING), cluster_at(port) as cluster, pytest.raises(BrokerUnavailable):
        cluster.metadata()
    (line,) = [record.getMessage() for record in caplog.records if record.name == WAITING]
    assert line == f"no answer from localhost:{port}: connection refused; trying until 3 s"


def test_a_port_that_is_silent_is_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    with listener(None) as port, caplog.at_level(logging.WARNING, WAITING), cluster_at(port) as cluster:
        with pytest.raises(RequestTimedOut):
            cluster.metadata()
        (line,) = [record.getMessage() for record in caplog.records if record.name == WAITING]
    assert line == f"no answer from localhost:{port}: nothing has come yet; trying until 3 s"


def test_an_operation_that_may_not_wait_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, WAITING),
        cluster_at(closed_port(), 500) as cluster,
        pytest.raises(KafkaError),
    ):
        cluster.metadata()
    assert not [record for record in caplog.records if record.name == WAITING]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this port speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "this port speaks SSH"),
        (b"-ERR unknown command\r\n", "this port speaks Redis' protocol"),
        (b"E\0\0\0\x8dSFATAL\0", "this port speaks PostgreSQL's protocol"),
    ],
)
def test_a_port_of_another_protocol_is_recognised_at_once(answer: bytes, words: str) -> None:
    with (
        listener(answer) as port,
        cluster_at(port, 60_000) as cluster,
        pytest.raises(ProtocolFault, match=words) as caught,
    ):
        cluster.metadata()
    assert not caught.value.retriable
    assert "bootstrap.servers" in str(caught.value)


def test_a_port_that_closes_without_an_answer_may_be_no_broker() -> None:
    with (
        listener(b"") as port,
        cluster_at(port, 300) as cluster,
        pytest.raises(BrokerUnavailable, match="is this a listener of a Kafka broker"),
    ):
        cluster.metadata()
