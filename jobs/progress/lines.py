"""Progress as plain lines, for logs and pipes: each phase, each message, and the progress every 10 seconds.

kseg: land: 12500000 of 50000000 offsets (25%), 12.4M rows, 410k rows/s, 82.1 MB/s, 31 of 120 tasks, 1:31 left
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import IO, Self

from kseg.etl.telemetry.events import ReadProgress, ReadStarted, RunEvent
from kseg.etl.telemetry.progress import Unit
from kseg.jobs.progress.pace import Pace, clock, human

SECONDS_BETWEEN_LINES = 10.0


class LineProgress:
    """A line every `SECONDS_BETWEEN_LINES` while the run makes progress; also while tasks run and none ends."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._name = ""
        self._unit: Unit = "rows"
        self._total = self._done = 0
        self._said = 0.0
        self._pace: Pace | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, name: str) -> None:
        self._name, self._total, self._done, self._pace = name, 0, 0, None
        self._said = time.monotonic()
        self.message(f"{name} …")

    def total(self, amount: int, unit: Unit = "rows") -> None:
        self._total, self._unit = amount, unit

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        if self._is_due():
            self._print_line()

    def message(self, text: str) -> None:
        with self._lock, suppress(OSError):  # on a full disk or a closed pipe the run continues
            print(f"kseg: {text}", file=self._stream, flush=True)

    def event(self, event: RunEvent) -> None:
        if isinstance(event, ReadStarted):
            self._pace = Pace()
            self._pace.began(event)
        elif isinstance(event, ReadProgress) and self._pace is not None:
            self._pace.reading(event)

    def _is_due(self) -> bool:
        if time.monotonic() - self._said < SECONDS_BETWEEN_LINES:
            return False
        self._said = time.monotonic()
        return True

    def _print_line(self) -> None:
        share = f" of {self._total} {self._unit} ({self._done / self._total:.0%})" if self._total else f" {self._unit}"
        line = f"{self._name}: {self._done}{share}"
        pace = self._pace
        if pace is not None:
            _, rows, fetched = pace.rates
            line += f", {human(pace.rows)} rows, {human(rows)} rows/s, {fetched / 1e6:.1f} MB/s"
            line += f", {pace.tasks_done} of {pace.tasks} tasks, {clock(pace.seconds_left)} left"
        self.message(line)
