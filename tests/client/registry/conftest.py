"""A small schema registry of the tests' own: scripted answers, and what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answer = tuple[int, Any]


@dataclass
class ScriptedRegistry:
    """`answers`: by path, or a function of what is asked; bytes are sent as they are."""

    server: ThreadingHTTPServer
    answers: dict[str, Answer | Callable[[Asked], Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def registry_server() -> Iterator[ScriptedRegistry]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            scripted.connections += 1
            super().setup()

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length).decode()
            body = json.loads(text) if text.startswith("{") else text or None  # else a form, for a token
            asked = Asked(self.command, self.path, dict(self.headers), body)
            scripted.asked.append(asked)
            answer = scripted.answers.get(self.path, (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
            status, document = answer(asked) if callable(answer) else answer
            text = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scripted = ScriptedRegistry(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
