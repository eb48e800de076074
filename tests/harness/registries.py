"""The Schema Registry that all tests of a process share, with Confluent's client of it."""

from __future__ import annotations

import base64
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka.schema_registry import SchemaRegistryClient

from kseg.jobs.registry.process import EmbeddedRegistry


@dataclass(frozen=True)
class SharedRegistry:
    """client: sends through one connection, and keeps what it has registered."""

    url: str
    client: SchemaRegistryClient


@contextmanager
def shared_registry() -> Iterator[SharedRegistry]:
    """Start a real registry, and stop it."""
    with EmbeddedRegistry(light=True) as started, SchemaRegistryClient({"url": started.url}) as client:
        yield SharedRegistry(started.url, client)


@contextmanager
def behind_a_password(registry: str, user_info: str) -> Iterator[str]:
    """The URL of a server that hands requests with this USER:PASSWORD on to a registry, and answers 401 to others."""
    expected = f"Basic {base64.b64encode(user_info.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = 401, b'{"error_code": 401, "message": "Unauthorized"}'
            if self.headers.get("Authorization") == expected:
                try:
                    with urllib.request.urlopen(registry + self.path, timeout=60) as answer:
                        status, content = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    with error:
                        status, content = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
