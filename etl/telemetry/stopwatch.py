"""Seconds that the phases of a run take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by phase; phases of the same name add up. Time in a phase within another one is the inner one's alone."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}
        self._inner = threading.local()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began, outer = time.perf_counter(), getattr(self._inner, "seconds", 0.0)
        self._inner.seconds = 0.0
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self._seconds[name] = self._seconds.get(name, 0.0) + took - self._inner.seconds
            self._inner.seconds = outer + took

    def seconds(self) -> dict[str, float]:
        """Seconds by phase, and `total` since the stopwatch was made."""
        return self._seconds | {"total": time.perf_counter() - self._began}
