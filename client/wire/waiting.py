"""Wait until one of several connections is readable or writable, or until another thread calls.

A TLS connection may hold decrypted bytes that its socket knows nothing of: `poll` every connection before waiting.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterable

from kseg.client.wire.broker import BrokerConnection


class Waiter:
    """For one thread that waits; `wake` and `close` are for any other. After `close`, `wake` does nothing."""

    def __init__(self) -> None:
        # A closed descriptor's number is soon another file's: nothing may be written to it, or closed, from then on.
        self._closing = threading.Lock()
        self._closed = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def wait(
        self, timeout: float | None, readable: Iterable[BrokerConnection], writable: Iterable[BrokerConnection] = ()
    ) -> None:
        """At most `timeout` seconds (None: until something happens)."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        events: dict[int, int] = {}
        for connection in readable:
            events[connection.fileno()] = select.POLLIN
        for connection in writable:
            events[connection.fileno()] = events.get(connection.fileno(), 0) | select.POLLOUT
        for number, wanted in events.items():
            if number >= 0:
                poll.register(number, wanted)
        # Rounded up, or the last millisecond before a deadline would be a busy loop.
        poll.poll(None if timeout is None else max(0, int(timeout * 1000 + 0.999)))
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._read, 4096)) == 4096:
                pass

    def wake(self) -> None:
        """End the wait that is on, or the next one."""
        with self._closing:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):  # full: it will wake up anyway
                    os.write(self._write, b"\0")

    def close(self) -> None:
        """No thread may wait any more."""
        with self._closing:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)


def is_writable(connection: BrokerConnection) -> bool:
    """Whether the system takes bytes for this connection now. A peer that reads nothing lets its buffer fill up."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLOUT)
    return bool(poll.poll(0))
