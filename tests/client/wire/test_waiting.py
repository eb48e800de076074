"""Waiting for several connections at once, and taking what is there without waiting."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kseg.client import BrokerUnavailable, ClientConfig
from kseg.client.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from kseg.client.protocol.registry import encode_response
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.client.wire.connection import Connection
from kseg.client.wire.failures import LastFailures
from kseg.client.wire.negotiation import BrokerVersions
from kseg.client.wire.transport import Transport
from kseg.client.wire.waiting import Waiter, is_writable

CONFIG = ClientConfig.from_properties({"bootstrap.servers": "h:1"}, client_id="t")


class Pair:
    """A connection, and its peer's end as a plain socket."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        transport = Transport(ours, "h:1", LastFailures(), (("h", 1), ("h", 1)))
        self.connection = BrokerConnection(Endpoint("h", 1), CONFIG, transport, Connection("t", broker="h:1"))
        self.connection.versions = BrokerVersions({HeartbeatRequest.KEY: (0, 3)}, {})

    def ask(self) -> None:
        self.connection.send(HeartbeatRequest(group_id="g", member_id="m"), 0, deadline=Deadline.after(5))

    def answer(self, correlation_id: int, code: int) -> bytes:
        frame = encode_response(0, correlation_id, HeartbeatResponse(error_code=code))
        return len(frame).to_bytes(4, "big") + frame


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.connection.close()
    made.peer.close()


def test_an_answer_is_taken_when_its_last_byte_is_there(pair: Pair):
    pair.ask()
    pair.ask()
    sent = pair.answer(0, 27) + pair.answer(1, 25)
    half = len(sent) // 2
    seen = []
    for at in range(len(sent)):
        pair.peer.sendall(sent[at : at + 1])
        while (answer := pair.connection.poll()) is not None:
            seen.append((at + 1, answer.error_code))
    assert seen == [(half, 27), (2 * half, 25)]
    assert pair.connection.poll() is None


def test_a_peer_that_goes_away_is_noticed_without_waiting(pair: Pair):
    pair.ask()
    pair.peer.close()
    with pytest.raises(BrokerUnavailable):
        pair.connection.poll()
    assert pair.connection.closed


def test_whatever_comes_first_ends_the_wait(pair: Pair):
    waiter = Waiter()
    began = time.monotonic()
    waiter.wait(0.2, [pair.connection])
    assert time.monotonic() - began >= 0.19
    pair.peer.sendall(b"x")
    waiter.wait(30, [pair.connection])
    waiter.wait(30, [], [pair.connection])
    threading.Timer(0.1, waiter.wake).start()
    waiter.wait(30, [])
    for _ in range(100_000):  # more than the pipe holds: who wakes is never held up
        waiter.wake()
    waiter.wait(30, [])
    assert time.monotonic() - began < 20
    waiter.close()


def test_after_closing_nothing_is_done_to_files_that_have_got_its_numbers(tmp_path: Path):
    waiter = Waiter()
    waiter.close()
    paths = [tmp_path / name for name in ("a", "b")]  # as many as a pipe has ends: the lowest free numbers are taken
    with paths[0].open("wb") as first, paths[1].open("wb") as second:
        waiter.wake()
        waiter.close()
        for other in (first, second):
            other.write(b"theirs")
    assert [path.read_bytes() for path in paths] == [b"theirs"] * 2


def test_a_connection_to_a_peer_that_reads_nothing_is_not_writable(pair: Pair):
    assert is_writable(pair.connection)
    filler = socket.socket(fileno=socket.dup(pair.connection.fileno()))
    filler.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            filler.send(b"x" * 65536)
    assert not is_writable(pair.connection)
    filler.close()
