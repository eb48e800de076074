"""Shows what the Kafka client waits for as progress messages instead of log lines."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

#: `kseg.client.cluster.waiting.WAITING`: the client is imported by commands that use it.
LOGGER = "kseg.client.waiting"


class _Listener(Protocol):
    def message(self, text: str) -> None: ...


class _Handler(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextlib.contextmanager
def waits_shown(listener: _Listener) -> Iterator[None]:
    """Within this context, messages such as "no answer from localhost:9092 …" go to the listener."""
    logger, handler = logging.getLogger(LOGGER), _Handler(listener.message)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
