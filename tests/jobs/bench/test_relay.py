"""The relay adds latency, and nothing but latency: sockets of this test at both ends."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kseg.jobs.bench.relay import Relay, RelayedLink, RelayedTraffic
from kseg.jobs.broker.errors import StartFailed
from kseg.jobs.broker.ports import free_ports
from plain_server import PlainServer

HOST = "127.0.0.1"
LATE = 0.1
MIB = 1 << 20


class Server(PlainServer):
    """Answers each line with as many bytes as it asks for."""

    def answer(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                size = line.split()[1].partition(b"?")[0].lstrip(b"/")
                connection.sendall(bytes(int(size)))


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server(HOST)
    yield started
    started.close()


@contextmanager
def relayed(server: Server, late: float = LATE) -> Iterator[tuple[Relay, socket.socket]]:
    (port,) = free_ports(1)
    link = RelayedLink(HOST, port, HOST, server.port, late, late)
    with Relay([link]) as relay, socket.create_connection((HOST, port), 30) as client:
        yield relay, client


def ask(client: socket.socket, size: int, verb: str = "give") -> float:
    """Seconds until so many bytes have come."""
    began = time.monotonic()
    client.sendall(b"%s /%d?of=a-name\r\n" % (verb.encode(), size))
    left = size
    while left:
        left -= len(client.recv(min(left, MIB)))
    return time.monotonic() - began


def test_each_answer_is_a_round_trip_late_and_the_first_one_two(server: Server) -> None:
    with relayed(server) as (_, client):
        assert 4 * LATE <= ask(client, 1) < 4 * LATE + 2, "the handshake's, and its own"
        assert 2 * LATE <= ask(client, 1) < 2 * LATE + 2


def test_what_is_under_way_is_late_together_and_not_piece_by_piece(server: Server) -> None:
    """A relay that waits with each piece would take minutes for these bytes."""
    with relayed(server) as (_, client):
        assert ask(client, 200 * MIB) < 30


def test_it_counts_round_trips_requests_and_bytes(server: Server) -> None:
    with relayed(server, late=0) as (relay, client):
        for size, verb in ((10, "GET"), (20, "PUT"), (30, "hello")):
            ask(client, size, verb)
        sent = len("GET /10?of=a-name\r\nPUT /20?of=a-name\r\nhello /30?of=a-name\r\n")
        assert relay.take() == RelayedTraffic(1, 3, sent, 60, {"GET /10": 1, "PUT /20": 1})
        assert relay.take() == RelayedTraffic()


def test_latency_changes_for_open_connections(server: Server) -> None:
    with relayed(server) as (relay, client):
        ask(client, 1)
        relay.hold(there=5 * LATE, back=0)
        assert ask(client, 1) >= 5 * LATE
        relay.hold(there=0, back=0)
        assert ask(client, 1) < 5 * LATE


def test_requests_with_a_header_are_passed_on_in_turn() -> None:
    """The server holds each answer back; only a request without the header reaches it meanwhile."""
    arrived: list[bytes] = []
    answer = threading.Semaphore(0)

    class Slow(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            arrived.append(self.path.encode())
            answer.acquire(timeout=30)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    def put(path: str, headers: dict[str, str]) -> None:
        with closing(http.client.HTTPConnection(HOST, port, timeout=30)) as connection:
            connection.request("PUT", path, headers=headers)
            assert connection.getresponse().status == 200

    server = ThreadingHTTPServer((HOST, 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (port,) = free_ports(1)
    with Relay([RelayedLink(HOST, port, HOST, server.server_port, in_turn="if-none-match")]):
        asked = [("/first", {"If-None-Match": "*"}), ("/second", {"If-None-Match": "*"}), ("/other", {})]
        threads = []
        for one in asked:
            threads.append(threading.Thread(target=put, args=one))
            threads[-1].start()
            time.sleep(0.2)
        assert arrived == [b"/first", b"/other"]
        for _ in asked:
            answer.release()
        for thread in threads:
            thread.join(30)
        assert arrived == [b"/first", b"/other", b"/second"]
    server.shutdown()
    server.server_close()


def test_an_end_is_passed_on(server: Server) -> None:
    with relayed(server) as (_, client):
        ask(client, 1)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        assert server.ended.acquire(timeout=30)


def test_a_connection_without_a_server_is_closed() -> None:
    here, behind = free_ports(2)
    with (
        Relay([RelayedLink(HOST, here, HOST, behind)]),
        socket.create_connection((HOST, here), 30) as client,
        suppress(ConnectionResetError),
    ):
        assert client.recv(1) == b""


def test_an_address_that_cannot_be_listened_on_is_told(server: Server) -> None:
    with pytest.raises(StartFailed, match=r"127\.0\.0\.1"), Relay([RelayedLink(HOST, server.port, HOST, server.port)]):
        pass
