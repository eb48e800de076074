"""One line in the log when an operation has waited for two seconds without an answer.

    no answer from localhost:9092: connection refused; trying until 60 s

Logger: ``kseg.client.waiting``, level WARNING. Written once for each operation of a `Cluster` (`Cluster.retry`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from types import TracebackType
from typing import Final

from kseg.client.errors import BrokerUnavailable, KafkaError

WAITING: Final = "kseg.client.waiting"
SECONDS: Final = 2.0

_LOG = logging.getLogger(WAITING)


class WaitNotice:
    """A context around one operation's tries. Call `failed` after each. At a first contact, a timer writes the line if
    there is no response at all.

    servers: the servers that should respond. until: seconds for all tries together. first: no broker has responded yet.
    """

    def __init__(self, servers: Collection[tuple[str, int]], until: float, *, first: bool) -> None:
        self._servers = ", ".join(f"{host}:{port}" for host, port in servers)
        self._until = until
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._reason = "nothing has come yet"
        self._done = until <= SECONDS
        self._timer = threading.Timer(SECONDS, self._say) if first and not self._done else None

    def __enter__(self) -> WaitNotice:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def failed(self, error: KafkaError) -> None:
        """Call this if a try ended with this error. If the error is retriable, another try follows."""
        if not error.retriable:
            return
        self._reason = reason_of(error)
        if time.monotonic() - self._began >= SECONDS:
            self._say()

    def _say(self) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
        _LOG.warning("no answer from %s: %s; trying until %.0f s", self._servers, self._reason, self._until)


def reason_of(error: KafkaError) -> str:
    """Why there was no answer, in a few words."""
    return (error.reason if isinstance(error, BrokerUnavailable) else None) or error.message
