"""The proxy's troubles, as a client and a server of plain sockets meet them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from plain_server import PlainServer
from tcp_proxy import BEHIND, FRONT, TcpProxy, Trouble

TIMEOUT = 30.0


class Echo(PlainServer):
    """Answers what it is sent."""

    def answer(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
        except OSError:
            pass


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo(BEHIND)
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with TcpProxy([echo.port]) as started:
        yield started


@pytest.fixture
def client(echo: Echo, proxy: TcpProxy) -> Iterator[socket.socket]:
    with connect(echo) as connected:
        assert answered(connected, b"well")
        yield connected


def connect(echo: Echo) -> socket.socket:
    return socket.create_connection((FRONT, echo.port), TIMEOUT)


def answered(client: socket.socket, data: bytes, timeout: float = TIMEOUT) -> bool:
    client.settimeout(timeout)
    client.sendall(data)
    found = b""
    while len(found) < len(data):
        try:
            piece = client.recv(1 << 16)
        except TimeoutError:
            return False
        if not piece:
            return False
        found += piece
    return found == data


def test_bytes_pass_either_way_and_so_do_ends(echo: Echo, client: socket.socket) -> None:
    assert answered(client, bytes(range(256)) * 1000)
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    assert echo.ended.acquire(timeout=TIMEOUT)


def test_latency_and_rates_take_time(client: socket.socket, proxy: TcpProxy) -> None:
    for trouble, size in ((Trouble(latency=0.1), 1), (Trouble(rate=10_000), 1_000)):
        proxy.hold(trouble)
        began = time.monotonic()
        assert answered(client, b"x" * size)
        assert time.monotonic() - began >= 0.2
        assert proxy.touched >= 2


@pytest.mark.parametrize("after", [0, 1, 700])
def test_a_connection_is_reset_within_an_answer(client: socket.socket, proxy: TcpProxy, after: int) -> None:
    proxy.hold(Trouble(reset_after=after))
    client.sendall(b"x" * 1000)
    found = b""

    def receive() -> None:
        nonlocal found
        while len(found) <= after:
            found += client.recv(1 << 16)

    with pytest.raises(ConnectionResetError):  # what has arrived before may be lost with it
        receive()
    assert len(found) <= after


def test_refused_connections_are_reset_and_open_ones_go_on(echo: Echo, client: socket.socket, proxy: TcpProxy) -> None:
    proxy.hold(Trouble(refused=True))
    with pytest.raises(ConnectionResetError), connect(echo) as refused:
        refused.recv(1)
    assert answered(client, b"on")


def test_a_black_hole_ends_with_what_was_sent_meanwhile(client: socket.socket, proxy: TcpProxy) -> None:
    proxy.hold(Trouble(silent=True))
    assert not answered(client, b"lost?", timeout=0.2)
    proxy.heal()
    client.settimeout(TIMEOUT)
    assert client.recv(100) == b"lost?"


def test_a_black_hole_ends_with_resets(echo: Echo, client: socket.socket, proxy: TcpProxy) -> None:
    proxy.hold(Trouble(silent=True))
    assert not answered(client, b"lost", timeout=0.2)
    proxy.heal(reset=True)
    client.settimeout(TIMEOUT)
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    with connect(echo) as new:
        assert answered(new, b"well")


def test_a_half_open_connection_swallows_and_new_ones_work(echo: Echo, client: socket.socket, proxy: TcpProxy) -> None:
    proxy.hold(Trouble(half_open=True))
    assert echo.ended.acquire(timeout=TIMEOUT), "its server knows"
    assert not answered(client, b"anybody?", timeout=0.2)
    with connect(echo) as new:
        assert answered(new, b"well")
    proxy.heal()
    assert not answered(client, b"still?", timeout=0.2)
