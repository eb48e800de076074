"""Throughput and remaining time of a read, from running totals.

Totals change in steps, when tasks end. Rates over the last `WINDOW` seconds smooth that; in the first `WINDOW` seconds
they are since the beginning.
"""

from __future__ import annotations

import time
from collections import deque

from kseg.etl.telemetry.events import ReadProgress, ReadStarted
from kseg.jobs.output.si_prefixes import scaled

WINDOW = 30.0


class Pace:
    """The throughput of one read at a time: `began` starts again from 0."""

    def __init__(self) -> None:
        self.total = self.offsets = self.rows = self.bytes = self.tasks = self.tasks_done = 0
        self._samples: deque[tuple[float, int, int, int]] = deque()

    def began(self, event: ReadStarted) -> None:
        self.total, self.tasks = sum(event.totals.values()), event.tasks
        self.offsets = self.rows = self.bytes = self.tasks_done = 0
        self._samples = deque([(time.monotonic(), 0, 0, 0)])

    def reading(self, now: ReadProgress) -> None:
        self.offsets, self.rows, self.bytes, self.tasks_done = now.offsets, now.rows, now.bytes, now.tasks_done
        clock = time.monotonic()
        if now.ended:
            self._samples.append((clock, now.offsets, now.rows, now.bytes))
        while len(self._samples) > 2 and self._samples[1][0] < clock - WINDOW:
            self._samples.popleft()

    @property
    def rates(self) -> tuple[float, float, float]:
        """Offsets, rows and bytes a second; 0 before the first task has ended."""
        if not self._samples:
            return 0.0, 0.0, 0.0
        then, *amounts = self._samples[0]
        seconds = time.monotonic() - then
        if seconds <= 0:
            return 0.0, 0.0, 0.0
        offsets, rows, fetched = (
            (now - was) / seconds for now, was in zip((self.offsets, self.rows, self.bytes), amounts, strict=True)
        )
        return offsets, rows, fetched

    @property
    def left(self) -> int:
        """Offsets that are still to be read."""
        return max(0, self.total - self.offsets)

    @property
    def seconds_left(self) -> float | None:
        """The remaining seconds at the current rate; None if the rate is 0."""
        rate = self.rates[0]
        return self.left / rate if rate > 0 else None


def human(number: float) -> str:
    """A count in a few characters: 950, 12.3k, 4.5M."""
    left, prefix = scaled(number)
    return f"{left:.3g}{prefix}" if prefix else f"{left:.0f}"


def clock(seconds: float | None) -> str:
    """A duration as 0:42 or 1:02:03; `?` if it is not known."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
