"""Seconds that the phases of a run take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by phase; phases of the same name add up."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - began

    def seconds(self) -> dict[str, float]:
        """Seconds by phase, and `total` since the stopwatch was made."""
        return self._seconds | {"total": time.perf_counter() - self._began}
