"""A small token endpoint of the tests' own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest


@dataclass
class Asked:
    """One request: its path, headers and form."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class TokenEndpoint:
    """Answers with what `answers` says, one after the other, the last one for good: (status, document, headers)."""

    server: Any
    answers: list[Callable[[Asked], tuple[int, Any] | None]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/token"


@pytest.fixture
def early_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections log in again in the middle of their sessions, which last but seconds in tests.

    Otherwise the broker has 5 to 15 % of a session to read what was sent before the login. Of 3 s that is less than a
    busy machine needs at times, and then it closes the connection.
    """
    monkeypatch.setattr("kseg.client.security.authenticate._WINDOW", (0.5, 0.55))


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    """`endpoint.answers` scripts it, `endpoint.asked` is what came."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            asked = Asked(self.path, dict(self.headers), {name: values[0] for name, values in form.items()})
            found.asked.append(asked)
            answer = found.answers[0] if len(found.answers) == 1 else found.answers.pop(0)
            said = answer(asked)
            if said is None:
                return  # the connection just ends
            status, document = said
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = TokenEndpoint(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join(5)
