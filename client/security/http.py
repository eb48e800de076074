"""One HTTP exchange at a time with one server: token endpoints, schema registries.

Every exchange ends by its deadline, whatever the server sends, and an answer is bounded in size. No redirect is
followed: a secret belongs to the server that was named, and to none that this one names.
"""

from __future__ import annotations

import http.client
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from kseg.client.retry import Deadline
from kseg.client.security.tls import TlsConfig
from kseg.client.security.tlserrors import verification_fault

_PART: Final = 65536


class HttpFailure(Exception):
    """No answer. `retriable`: False where the server's certificate is rejected."""

    def __init__(self, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.retriable = retriable


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The server's answer: the status, its headers by name in lower case, the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later: the server failed, or was asked too early or too often."""
        return self.status >= 500 or self.status in (408, 425, 429)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server by its URL (the path is a prefix of every target), and how it is reached. Times in milliseconds.

    tls: None for the machine's own trust. proxy: host and port of an HTTP proxy.
    """

    url: str
    tls: TlsConfig | None = None
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    proxy: tuple[str, int] | None = None

    @property
    def place(self) -> str:
        """The URL for messages: without user and query."""
        url = urlsplit(self.url)
        return f"{url.scheme}://{_bracketed(url.hostname or '')}{f':{url.port}' if url.port else ''}{url.path}"


class HttpConnection:
    """A connection that is kept between exchanges, and opened again where the server has closed it. Not thread-safe."""

    def __init__(self, server: HttpServer, *, max_bytes: int = 1 << 20) -> None:
        self.server = server
        self._max_bytes = max_bytes
        self._open: http.client.HTTPConnection | None = None

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], deadline: Deadline, body: str | None = None
    ) -> HttpAnswer:
        """`target`: the path below the URL's, with its query. Raises HttpFailure."""
        reused = self._open is not None
        try:
            return self._exchange(method, target, headers, deadline, body)
        except HttpFailure:
            # An idle connection may have been closed by the server: that says nothing of the server.
            if not reused or method != "GET" or deadline.passed:
                raise
        return self._exchange(method, target, headers, deadline, body)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], deadline: Deadline, body: str | None
    ) -> HttpAnswer:
        problem, retriable = "", True
        try:
            connection = self._connected(deadline)
            until = deadline.within(self.server.read_timeout_ms / 1000)
            connection.sock.settimeout(max(until.remaining(), 0.001))
            connection.response_class = partial(_Response, until)  # type: ignore[assignment]
            connection.request(method, self._target(target), body, dict(headers))
            response = connection.getresponse()
            text = bytearray()
            while part := response.read1(_PART):
                text += part
                if len(text) > self._max_bytes:
                    raise http.client.HTTPException(f"the answer is larger than {self._max_bytes} bytes")
            if response.length:  # read1 takes the end of the stream for the end of the body
                raise http.client.HTTPException(f"the answer broke off after {len(text)} bytes")
            response.close()  # read1 leaves it open at the end of a body of a known length
            named = {name.lower(): value for name, value in response.getheaders()}
            if response.will_close:
                self.close()
            return HttpAnswer(response.status, named, bytes(text))
        except ssl.SSLCertVerificationError as error:
            problem, retriable = verification_fault(error, urlsplit(self.server.url).hostname, "its"), False
        except TimeoutError:
            problem = "timed out"
        except (OSError, http.client.HTTPException) as error:
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.close()
        raise HttpFailure(problem, retriable=retriable)

    def _connected(self, deadline: Deadline) -> http.client.HTTPConnection:
        if self._open is not None and self._open.sock is not None:  # None: interrupted while it connected
            return self._open
        url, server = urlsplit(self.server.url), self.server
        host, port = server.proxy or (url.hostname or "", url.port)
        timeout = max(min(server.connect_timeout_ms / 1000, deadline.remaining()), 0.001)
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            context = (server.tls or TlsConfig()).context()
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
            if server.proxy is not None:
                connection.set_tunnel(url.hostname or "", url.port or 443)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        self._open = connection
        connection.response_class = partial(_Response, Deadline.after(timeout))  # type: ignore[assignment]
        connection.connect()  # a proxy answers here
        return connection

    def _target(self, target: str) -> str:
        url = urlsplit(self.server.url)
        path = url.path.rstrip("/") + target if target else url.path or "/"
        query = f"?{url.query}" if url.query and "?" not in path else ""
        if self.server.proxy is not None and url.scheme == "http":
            return f"http://{url.netloc.rpartition('@')[2]}{path}{query}"
        return path + query


class _Response(http.client.HTTPResponse):
    """Reads until a deadline. A socket's timeout is for each read: headers that come byte by byte would have no end."""

    def __init__(self, until: Deadline, stream: Any, *args: Any, **more: Any) -> None:
        super().__init__(stream, *args, **more)
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), stream, until))


class _Timed(io.RawIOBase):
    """A socket's stream (`raw`, which keeps the socket open) until a deadline."""

    def __init__(self, raw: io.RawIOBase, stream: Any, until: Deadline) -> None:
        self._raw = raw
        self._stream = stream
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int | None:
        if self._until.passed:
            raise TimeoutError
        self._stream.settimeout(max(self._until.remaining(), 0.001))
        return self._raw.readinto(target)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
