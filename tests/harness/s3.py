"""A real S3 server (S3Proxy over a local folder, signatures checked), and in front of it a log of what it was asked.

    bucket "logs" = the folder `server.folder`; who writes there has uploaded.

Requests go through a small forwarder that notes each, makes conditional PUTs atomic, and can be told to answer some of
them itself as a store in trouble would, or to break an answer off. A test may also have something done when a request
has been carried out and is not answered yet.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kseg.jobs.bench.s3proxy import KEY, SECRET, environment, s3proxy
from kseg.jobs.broker.ports import free_ports

HOST = "127.0.0.1"
BUCKET = "logs"


@dataclass(frozen=True)
class Asked:
    """One request. `first`, `count`: the bytes of its Range header, -1 where it has none."""

    method: str
    path: str
    status: int
    first: int = -1
    count: int = -1


@dataclass(frozen=True)
class Misbehaviour:
    """How one request is treated. wait: seconds before it is carried out, linger: after that, before its answer.

    status: the answer in place of carrying it out; 0: it is carried out. repeat: it is carried out twice, as by a proxy
    that tries again, and the second answer is given. lose: nobody gets the answer.
    """

    wait: float = 0.0
    linger: float = 0.0
    status: int = 0
    repeat: bool = False
    lose: bool = False


@dataclass
class S3Server:
    """See the module."""

    folder: Path
    port: int
    asked: list[Asked] = field(default_factory=list)
    trouble: list[tuple[str, int]] = field(default_factory=list)
    carried_out: Callable[[Asked], bool] | None = None
    """Called before each answer; True: nobody waits for it any more."""
    misbehaviour: Callable[[str, str], Misbehaviour | None] | None = None
    """Asked before each request, with its method and path."""

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.port)

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "endpoint_url": self.endpoint,
            "region": "us-east-1",
        }

    def gets(self, ending: str = "") -> list[Asked]:
        """The GETs of objects whose names end so (listings are GETs of the bucket)."""
        return [one for one in self.asked if one.method == "GET" and one.path.endswith(ending) and "/" in one.path]

    def forget(self) -> None:
        self.asked.clear()
        self.trouble.clear()
        self.carried_out = None
        self.misbehaviour = None


@contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """Start it in an empty directory, and stop it."""
    with s3proxy(directory, BUCKET, light=True) as store:
        (front,) = free_ports(1)
        server = S3Server(store.bucket, front)
        forwarder = ThreadingHTTPServer((HOST, front), _handler(server, store.port))
        threading.Thread(target=forwarder.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            forwarder.shutdown()
            forwarder.server_close()


def _handler(server: S3Server, port: int) -> type[BaseHTTPRequestHandler]:
    conditional = threading.Lock()

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes: with Nagle's algorithm the second waits 40 ms for the first one's
        # acknowledgement.
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # the client has been killed
                self.close_connection = True

        def do_GET(self) -> None:
            self._forward()

        def do_HEAD(self) -> None:
            self._forward()

        def do_POST(self) -> None:
            self._forward()

        def do_PUT(self) -> None:
            self._forward()

        def do_DELETE(self) -> None:
            self._forward()

        def log_message(self, *_: Any) -> None:
            pass

        def _forward(self) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/")
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, count = (int(span[1]), int(span[2]) - int(span[1]) + 1) if span else (-1, -1)
            given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            del self.headers["Expect"]  # a client that waits for the go-ahead has had it from http.server
            trouble = next((one for one in server.trouble if path.endswith(one[0])), None)
            if trouble is not None:
                server.trouble.remove(trouble)
            ill = (server.misbehaviour and server.misbehaviour(self.command, path)) or Misbehaviour()
            time.sleep(ill.wait)
            refused = ill.status or (trouble[1] if trouble is not None else 0)
            if refused:
                server.asked.append(Asked(self.command, path, refused, first, count))
                body = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"
                self.send_response(refused)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)
                return
            # S3Proxy checks, and then writes: one at a time, its conditional PUTs are what Amazon's are.
            with (
                conditional if self.headers.get("If-None-Match") else contextlib.nullcontext(),
                contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=60)) as behind,
            ):
                behind.request(self.command, self.path, body=given, headers=dict(self.headers.items()))
                answer = behind.getresponse()
                data = answer.read()
                if ill.repeat:
                    behind.request(self.command, self.path, body=given, headers=dict(self.headers.items()))
                    answer = behind.getresponse()
                    data = answer.read()
            time.sleep(ill.linger)
            server.asked.append(asked := Asked(self.command, path, answer.status, first, count))
            if ill.lose or (server.carried_out is not None and server.carried_out(asked)):
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length)
            self.end_headers()
            if trouble is not None:  # broken off in the middle
                data = data[: len(data) // 2]
                self.close_connection = True
            self.wfile.write(data)
            behind.close()

    return Forward
