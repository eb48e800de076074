"""A folder of run pages on this machine's loopback: for browsers that do not open files, over a tunnel (`ssh -L`).

Only the folder's own `*.html` are served, by GET and HEAD; the index is made anew for each request, and not written.
Requests whose Host is not the loopback are rejected, so that a web page of somebody else cannot read the pages through
a name that it points here (DNS rebinding).
"""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kseg.jobs.report.index import NAME, render_index

HOST: Final = "127.0.0.1"
_HOSTS: Final = frozenset({HOST, "localhost"})


class PageServer(ThreadingHTTPServer):
    """folder: of pages. port: 0 takes a free one; `address` has it. Raises OSError where the port is taken."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "kseg"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

    def _answer(self, *, with_body: bool) -> None:
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _HOSTS:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "only 127.0.0.1 and localhost are served")
            return
        name = unquote(urlsplit(self.path).path).removeprefix("/") or NAME
        try:
            data = render_index(self.server.folder) if name == NAME else self._page(name)
        except OSError:
            data = None
        if data is None:
            self.send_error(HTTPStatus.NOT_FOUND, "no such page")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def _page(self, name: str) -> bytes | None:
        """A page of the folder itself: no other file, no other folder, no link that leads out of it."""
        if "/" in name or "\\" in name or "\0" in name or not name.endswith(".html"):
            return None
        path = (self.server.folder / name).resolve()
        return path.read_bytes() if path.parent == self.server.folder and path.is_file() else None
