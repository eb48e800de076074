"""A TCP relay that adds latency, so that servers on this machine behave like remote ones.

    with Relay([RelayedLink("127.0.0.3", 9092, "127.0.0.1", 9092, there=0.025, back=0.025)]) as relay:
        ...
        relay.take()                        # the traffic since the last call
        relay.hold(there=0.1, back=0.1)     # the latency from now on

Only latency is added. Each piece of data is delayed by itself, however much is in flight (`there` for what a client
sends, `back` for what it receives), and a new connection waits for the round trip of TCP's handshake. Bandwidth,
windows and packet loss are those of loopback: TCP ends at the relay. It runs in a separate process, because sharing an
interpreter with the measured code would slow down both.

    python -m kseg.jobs.bench.relay LINKS                 that process: links as JSON, until its input ends
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from kseg.jobs.broker.errors import StartFailed

UNDER_WAY: Final = 256 << 20
"""The most delayed bytes in one direction of a connection: with 25 ms, enough for 10 GB per second."""

_WRITE_BUFFER: Final = 4 << 20
_METHODS: Final = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")


@dataclass(frozen=True, slots=True)
class RelayedLink:
    """The address to which clients connect, and the server behind it. there, back: latency in seconds.

    in_turn: name of a header, in lower case; HTTP requests with this header are passed on one at a time, each after the
    response to the one before. For servers whose put-if-absent is not atomic (they check, then write).
    """

    host: str
    port: int
    behind_host: str
    behind_port: int
    there: float = 0.0
    back: float = 0.0
    in_turn: str = ""


@dataclass(frozen=True, slots=True)
class RelayedTraffic:
    """The traffic. turns: how often a client has sent something after a response, or for the first time: if it sends
    one request at a time, this is the number of round trips. requests: number of HTTP requests by method and path, such
    as `PUT /bucket/name`. sent, received: bytes, from the client's point of view.
    """

    connections: int = 0
    turns: int = 0
    sent: int = 0
    received: int = 0
    requests: dict[str, int] = field(default_factory=dict)


class Relay:
    """A relay process with these links, which runs from `__enter__` to `__exit__`."""

    def __init__(self, links: Sequence[RelayedLink]) -> None:
        self._links = links
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Raises StartFailed: an address cannot be listened on."""
        command = [sys.executable, "-m", "kseg.jobs.bench.relay", json.dumps([asdict(link) for link in self._links])]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self._answer() != "ready":
            _, told = self._process.communicate()
            hosts = ", ".join(sorted({link.host for link in self._links}))
            raise StartFailed(
                f"The relay cannot listen on {hosts}: {(told.strip().splitlines() or ['it has ended'])[-1]}",
                remedy="On systems other than Linux, add these addresses to the loopback interface first.",
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()  # it ends at the end of its input
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def take(self) -> RelayedTraffic:
        """The traffic since the last call."""
        return RelayedTraffic(**json.loads(self._ask({})))

    def hold(self, *, there: float, back: float) -> None:
        """Set the latency of all links from now on; data in flight keeps its delay."""
        self._ask({"there": there, "back": back})

    def _ask(self, question: dict[str, float]) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


# --- in the process


@dataclass
class _Late:
    there: float
    back: float


class _Count:
    def __init__(self) -> None:
        self.connections = self.turns = self.sent = self.received = 0
        self.requests: Counter[str] = Counter()

    def take(self) -> dict[str, Any]:
        taken = asdict(RelayedTraffic(self.connections, self.turns, self.sent, self.received, dict(self.requests)))
        self.connections = self.turns = self.sent = self.received = 0
        self.requests.clear()
        return taken


class _Turn:
    """The connection whose request is passed on, and those whose requests wait."""

    def __init__(self) -> None:
        self._holder: _Client | None = None
        self._waiting: deque[_Client] = deque()

    def take(self, client: _Client) -> bool:
        if self._holder not in (None, client):
            if client not in self._waiting:
                self._waiting.append(client)
            return False
        self._holder = client
        return True

    def end(self, client: _Client) -> None:
        """The client has received its response, or has disconnected."""
        if client in self._waiting:
            self._waiting.remove(client)
        if self._holder is client:
            self._holder = self._waiting.popleft() if self._waiting else None
            if self._holder is not None:
                self._holder.pass_on()


class _Side(asyncio.Protocol):
    """One end of a connection: data that arrives here is written to the other end after its delay."""

    transport: asyncio.Transport
    other: _Side

    def __init__(self, late: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._late = late
        self._first = 0.0
        self._queue: deque[tuple[float, bytes | None]] = deque()  # None: the end
        self._held = 0
        self._paused = self._full = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)

    def not_before(self, seconds: float) -> None:
        """Data that arrives within this many seconds counts as arrived at their end."""
        self._first = self._loop.time() + seconds

    def data_received(self, data: bytes) -> None:
        self._take(data)
        self._held += len(data)
        if self._held > UNDER_WAY and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._take(None)
        return True  # keep the other direction open

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._queue.clear()
            self.other.transport.abort()
        else:
            self._take(None)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.other.pass_on()

    def _take(self, data: bytes | None) -> None:
        self._queue.append((max(self._loop.time(), self._first) + self._late(), data))
        self.pass_on()

    def has_turn(self) -> bool:
        """Whether the next piece of data may be passed on; if not, `pass_on` is called as soon as it may."""
        return True

    def pass_on(self) -> None:
        """Pass on the data that is due, until the other end's write buffer is full."""
        now = self._loop.time()
        target = self.other.transport
        while self._queue and self._queue[0][0] <= now and not self.other._full:
            if not self.has_turn():
                return
            data = self._queue.popleft()[1]
            if target.is_closing():
                continue
            if data is not None:
                target.write(data)
                self._held -= len(data)
            elif self.transport.is_closing():
                target.close()
            elif target.can_write_eof():
                target.write_eof()
        if self._paused and self._held < UNDER_WAY // 2 and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue and not self.other._full:
            self._timer = self._loop.call_at(self._queue[0][0], self.pass_on)


class _Client(_Side):
    """The end of a connection at the client, which counts the traffic."""

    def __init__(self, link: RelayedLink, late: _Late, turn: _Turn, count: _Count) -> None:
        super().__init__(lambda: late.there)
        self._turn = turn
        self._in_turn = link.in_turn.encode()
        self._link = link
        self._both = late
        self._count = count
        self.answered = True
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._count.connections += 1
        self.not_before(self._both.there + self._both.back)
        self.transport.pause_reading()
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        server = _Server(self._both, self, self._count)
        self.other = server
        try:
            await self._loop.create_connection(lambda: server, self._link.behind_host, self._link.behind_port)
        except OSError:
            self.transport.abort()
            return
        self.transport.resume_reading()

    def has_turn(self) -> bool:
        data = self._queue[0][1]
        if not self._in_turn or data is None or not data.startswith(_METHODS):
            return True
        head = data.partition(b"\r\n\r\n")[0].lower()
        return self._in_turn not in head or self._turn.take(self)

    def is_answered(self) -> None:
        self.answered = True
        self._turn.end(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._turn.end(self)
        if hasattr(self, "other") and hasattr(self.other, "transport"):
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._count.sent += len(data)
        if self.answered:
            self.answered = False
            self._count.turns += 1
            if data.startswith(_METHODS):
                method, path, *_ = data.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                self._count.requests[f"{method} {path.partition('?')[0]}"] += 1
        super().data_received(data)


class _Server(_Side):
    def __init__(self, late: _Late, client: _Client, count: _Count) -> None:
        super().__init__(lambda: late.back)
        self._client = self.other = client
        self._count = count

    def data_received(self, data: bytes) -> None:
        self._count.received += len(data)
        self._client.is_answered()
        super().data_received(data)


async def _serve(links: Sequence[RelayedLink]) -> None:
    count, loop = _Count(), asyncio.get_running_loop()
    lates = [_Late(link.there, link.back) for link in links]

    def made(link: RelayedLink, late: _Late) -> Callable[[], asyncio.Protocol]:
        turn = _Turn()
        return lambda: _Client(link, late, turn, count)

    for link, late in zip(links, lates, strict=True):
        await loop.create_server(made(link, late), link.host, link.port)
    print("ready", flush=True)
    ended = asyncio.Event()

    def answer(question: dict[str, float]) -> None:
        if not question:
            print(json.dumps(count.take()), flush=True)
            return
        for late in lates:
            late.there, late.back = question["there"], question["back"]
        print("done", flush=True)

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(answer, json.loads(line))
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve([RelayedLink(**link) for link in json.loads(sys.argv[1])]))
