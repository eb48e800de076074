"""The one file with sockets, on real ones."""

from __future__ import annotations

import ast
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kseg.client
from kseg.client.errors import BrokerUnavailable, RequestTimedOut
from kseg.client.retry import Deadline
from kseg.client.wire.transport import Transport


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connect(host: str, port: int, *, seconds: float = 5.0, address_timeout: float = 2.0) -> Transport:
    return Transport.connect(
        host, port, label=f"{host}:{port}", deadline=Deadline.after(seconds), address_timeout=address_timeout
    )


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def getaddrinfo(host: str, port: int, *, type: int, flags: int) -> list[object]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.rule(7)
def test_bytes_go_both_ways(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    peer, _ = listener.accept()
    with peer:
        transport.send(b"ping", Deadline.after(30))
        assert peer.recv(10) == b"ping"
        peer.sendall(b"pong")
        target = bytearray(10)
        assert transport.receive_into(memoryview(target), Deadline.after(30)) == 4
        assert target[:4] == b"pong"
    transport.close()


@pytest.mark.rule(25)
def test_every_address_of_a_name_is_tried(listener: socket.socket, monkeypatch: pytest.MonkeyPatch):
    resolve_to(monkeypatch, "127.0.0.9", "127.0.0.8", "127.0.0.1")
    transport = connect("brokers.test", listener.getsockname()[1])
    assert transport.label.startswith("brokers.test")
    transport.close()


def test_when_all_addresses_fail_each_is_told(monkeypatch: pytest.MonkeyPatch, listener: socket.socket):
    resolve_to(monkeypatch, "127.0.0.9", "127.0.0.8", "127.0.0.9")
    with pytest.raises(BrokerUnavailable) as caught:
        connect("brokers.test", listener.getsockname()[1])
    assert str(caught.value).count("127.0.0.9") == 1
    assert "127.0.0.8" in str(caught.value)
    assert caught.value.retriable


def test_a_name_that_does_not_resolve_is_a_broker_unavailable():
    with pytest.raises(BrokerUnavailable, match="cannot resolve"):
        connect("nowhere.invalid", 9092, address_timeout=20, seconds=20)


@pytest.mark.parametrize("host", ["a..b", "x" * 80 + ".test"])
def test_a_name_that_is_none_is_a_broker_unavailable(host: str):
    with pytest.raises(BrokerUnavailable):
        connect(host, 9092)


def test_a_hanging_resolver_does_not_hold_up_the_deadline(monkeypatch: pytest.MonkeyPatch):
    release = threading.Event()

    def getaddrinfo(host: str, port: int, *, type: int, flags: int) -> list[object]:
        if not flags & socket.AI_NUMERICHOST:
            release.wait(30)
        raise socket.gaierror(socket.EAI_NONAME, "none")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="not resolved in time"):
        connect("slow.test", 9092, address_timeout=0.2)
    assert time.monotonic() - started < 20
    release.set()


def test_a_connect_that_nobody_answers_ends_with_its_timeout():
    # The backlog of a listener that never accepts fills up; further connects get no answer then.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for client_socket in waiting:
            client_socket.setblocking(False)
            client_socket.connect_ex(full.getsockname())
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="timed out"):
            connect("127.0.0.1", full.getsockname()[1], address_timeout=0.3)
        assert time.monotonic() - started < 20
        for client_socket in waiting:
            client_socket.close()


@pytest.mark.rule(13)
def test_a_silent_peer_is_a_timeout(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    started = time.monotonic()
    with pytest.raises(RequestTimedOut):
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(0.1))
    assert time.monotonic() - started < 20
    transport.close()


@pytest.mark.rule(13)
def test_a_peer_that_takes_nothing_is_a_timeout(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(RequestTimedOut):
        transport.send(b"x" * 64_000_000, Deadline.after(0.2))
    transport.close()


def test_a_half_closed_peer_is_a_broken_connection(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    peer, _ = listener.accept()
    with peer:
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises(BrokerUnavailable, match="closed the connection"):
            transport.receive_into(memoryview(bytearray(4)), Deadline.after(30))
    transport.close()


def test_a_reset_is_a_broken_connection(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    peer, _ = listener.accept()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    peer.close()
    with pytest.raises(BrokerUnavailable, match="connection broke"):
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(30))
    transport.close()


@pytest.mark.rule(13)
def test_a_deadline_that_has_passed_is_a_timeout_not_a_block(listener: socket.socket):
    transport = connect("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(RequestTimedOut):
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(-1))
    transport.close()


def test_no_other_file_of_the_package_has_sockets():
    root = Path(kseg.client.__file__).parent
    users: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in {"socket", "ssl", "selectors", "asyncio", "http.client"} & set(names):
                users.setdefault(name, set()).add(path.name)
    # TLS contexts are made, and its errors told, without a socket; the token endpoint is no broker.
    assert users == {
        "socket": {"transport.py"},
        "ssl": {"transport.py", "tls.py", "tlserrors.py", "http.py"},
        "http.client": {"http.py"},
    }
