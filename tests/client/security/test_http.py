"""Exchanges with an HTTP server that breaks off: a token endpoint, a schema registry."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kseg.client.retry import Deadline
from kseg.client.security.http import HttpAnswer, HttpConnection, HttpFailure, HttpServer

Serve = Callable[[socket.socket], object]


@pytest.fixture
def server() -> Iterator[Callable[[Serve], str]]:
    """`server(serve)` has each connection served by the function, after its request, and gives the URL."""
    listeners: list[socket.socket] = []

    def start(serve: Serve) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    stream, _ = listener.accept()
                except OSError:
                    return
                with stream:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        head += stream.recv(65536)
                    serve(stream)

        threading.Thread(target=accept, daemon=True).start()
        return "http://{}:{}".format(*listener.getsockname())

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def get(url: str) -> HttpAnswer:
    connection = HttpConnection(HttpServer(url))
    try:
        return connection.exchange("GET", "/x", {}, Deadline.after(20))
    finally:
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
)
def test_a_body_that_breaks_off_is_no_answer(server: Callable[[Serve], str], answer: bytes) -> None:
    with pytest.raises(HttpFailure) as caught:
        get(server(lambda stream: stream.sendall(answer)))
    assert caught.value.retriable


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
    ],
)
def test_a_whole_body_is_the_answer(server: Callable[[Serve], str], answer: bytes) -> None:
    assert get(server(lambda stream: stream.sendall(answer))).body == b"{}"


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_comes_byte_by_byte_ends_with_the_deadline(
    server: Callable[[Serve], str], begins: bytes
) -> None:
    ended = threading.Event()

    def drip(stream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            stream.sendall(begins)
            while not ended.wait(0.05):
                stream.sendall(b"x")

    connection = HttpConnection(HttpServer(server(drip), read_timeout_ms=500))
    started = time.monotonic()
    with pytest.raises(HttpFailure, match="timed out") as caught:
        connection.exchange("GET", "/x", {}, Deadline.after(20))
    ended.set()
    assert caught.value.retriable
    assert time.monotonic() - started < 15
