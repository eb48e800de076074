"""A network in trouble: a proxy in front of servers of this machine that delays, throttles, breaks and swallows.

A server listens on 127.0.0.1 and is known to its clients as 127.0.0.2 with the same port, where the proxy is (Linux:
all of 127.0.0.0/8 is this machine). So brokers advertise that address (`Listener(…, advertised="127.0.0.2")`), and
whoever is to see the servers as they are uses 127.0.0.1.

    with TcpProxy([9092]) as proxy:
        proxy.hold(Trouble(latency=0.2))      # from now on, for open connections too
        proxy.heal()
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

BEHIND, FRONT = "127.0.0.1", "127.0.0.2"
_PIECE = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


@dataclass(frozen=True)
class Trouble:
    """How connections fare. With no field set, well.

    latency: seconds by which each piece is late, either way. rate: bytes a second of each connection, either way.
    reset_after: a connection is reset when so many more bytes of answers have passed, in the middle of a piece.
    refused: new connections are reset before they are used. silent: nothing passes and nothing is closed (a black
    hole); what has been sent meanwhile passes when it ends. half_open: open connections have lost their server, which
    their clients are not told; new connections work.
    """

    latency: float = 0.0
    rate: float | None = None
    reset_after: int | None = None
    refused: bool = False
    silent: bool = False
    half_open: bool = False


class TcpProxy:
    """ports: of the servers on 127.0.0.1. Use as a context manager, or `close` it."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = sorted(ports)
        self._troubles = dict.fromkeys(self._ports, Trouble())
        self._connections: set[_Connection] = set()
        self._counted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        try:
            self._servers = [self._call(self._listen, port) for port in self._ports]
        except BaseException:
            self._end()
            raise

    @property
    def touched(self) -> int:
        """How many pieces and connections trouble has met since `hold`."""
        return self._counted

    def hold(self, trouble: Trouble, ports: Iterable[int] | None = None) -> None:
        """Trouble on the way to these servers (all of them): from now on, until `heal` or another one."""
        self._call(self._hold, trouble, list(self._ports if ports is None else ports))

    def heal(self, *, reset: bool = False) -> None:
        """All is well again. reset: connections that were open meanwhile are reset, as a firewall that has forgotten
        them does."""
        self._call(self._heal, reset)

    def close(self) -> None:
        self._call(self._close)
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- in the proxy's own thread

    def _call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work(*arguments), self._loop).result(30)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _listen(self, port: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(port, reader, writer)

        return await asyncio.start_server(serve, FRONT, port)

    async def _hold(self, trouble: Trouble, ports: list[int]) -> None:
        self._counted = 0
        for port in ports:
            self._troubles[port] = trouble
        for one in self._connections:
            if one.port in ports:
                one.passed = 0
                if trouble.half_open:
                    self._counted += 1
                    one.lose_server()
        self._changed()

    async def _heal(self, reset: bool) -> None:
        for one in list(self._connections):
            if reset and self._troubles[one.port] != Trouble():
                one.reset()
        self._troubles = dict.fromkeys(self._ports, Trouble())
        self._changed()

    def _changed(self) -> None:
        for one in self._connections:
            one.changed.set()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for one in self._connections for task in one.tasks]
        for one in list(self._connections):
            one.reset()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._troubles[port].refused:
            self._counted += 1
            _abort(writer)
            return
        try:
            behind = await asyncio.open_connection(BEHIND, port)
        except OSError:  # as the server itself would have answered
            _abort(writer)
            return
        one = _Connection(port, writer, behind[1])
        self._connections.add(one)
        one.tasks = [
            asyncio.ensure_future(self._pump(one, reader, behind[1], answers=False)),
            asyncio.ensure_future(self._pump(one, behind[0], writer, answers=True)),
        ]
        await asyncio.gather(*one.tasks, return_exceptions=True)
        self._connections.discard(one)
        for end in (writer, behind[1]):
            end.close()

    async def _pump(
        self, one: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        """Pass on what one side sends, until it ends; then the other side is told."""
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._wait(one, len(data))
                if one.lost_server:  # a client's bytes go nowhere; an answer of before is lost
                    continue
                if answers and (left := self._before_reset(one)) is not None and len(data) > left:
                    writer.write(data[:left])
                    await writer.drain()
                    self._counted += 1
                    one.reset()
                    return
                one.passed += len(data) if answers else 0
                writer.write(data)
                await writer.drain()
        while answers and one.lost_server:  # the client is not told, for as long as it keeps its end
            await asyncio.sleep(3600)
        await self._wait(one, 0)
        with suppress(OSError):
            if one.lost_server or reader.exception() is not None:
                one.reset()
            elif writer.can_write_eof():
                writer.write_eof()
        if not answers:
            one.tasks[1].cancel() if one.lost_server else None

    def _before_reset(self, one: _Connection) -> int | None:
        after = self._troubles[one.port].reset_after
        return None if after is None else max(after - one.passed, 0)

    async def _wait(self, one: _Connection, size: int) -> None:
        """As long as trouble has it."""
        trouble = self._troubles[one.port]
        late = trouble.latency + (size / trouble.rate if trouble.rate else 0.0)
        if late:
            self._counted += 1
            await asyncio.sleep(late)
        while self._troubles[one.port].silent:
            self._counted += 1
            one.changed.clear()
            await one.changed.wait()


class _Connection:
    """passed: bytes of answers since trouble began."""

    def __init__(self, port: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.port = port
        self._client, self._server = client, server
        self.passed = 0
        self.lost_server = False
        self.changed = asyncio.Event()
        self.tasks: list[asyncio.Future[None]] = []

    def lose_server(self) -> None:
        self.lost_server = True
        _abort(self._server)

    def reset(self) -> None:
        _abort(self._client)
        _abort(self._server)
        for task in self.tasks:
            task.cancel()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST, whatever is under way."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
