"""The cost of one task attempt: measured in its worker, and returned with the task's range result.

It is no part of what was read, so attempts that differ in it still agree (`RangeResult.what_was_read`).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kseg.client.wire.trace import TRAFFIC
from kseg.etl.telemetry.traffic import TrafficLine, since


@dataclass(frozen=True, slots=True)
class TaskCost:
    """began: seconds since the epoch, by the worker's clock. seconds: from then to the task's end, with writing.

    Both to the microsecond: a small task of a pack takes less than a millisecond, and thousands of them are added up.

    host: the worker's. executor: identifies an executor on its host: `host/pid` of the process that forks its Python
    workers. attempt: Spark's attempt number of this task, 0 for the first.
    traffic: requests to brokers meanwhile; none for files.
    """

    began: float
    seconds: float
    host: str
    executor: str
    attempt: int
    traffic: tuple[TrafficLine, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskCost:
        """The inverse of `dataclasses.asdict`."""
        return cls(**{**data, "traffic": tuple(TrafficLine(**line) for line in data["traffic"])})


class Meter:
    """Measures one attempt, from the object's creation on."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._before = TRAFFIC.snapshot()
        self._began, self._clock = time.time(), time.perf_counter()

    def cost(self) -> TaskCost:
        """The cost of the attempt so far."""
        host = _host()
        return TaskCost(
            began=round(self._began, 6),
            seconds=round(time.perf_counter() - self._clock, 6),
            host=host,
            executor=f"{host}/{os.getppid()}",
            attempt=self._attempt,
            traffic=since(self._before),
        )


@cache
def _host() -> str:
    return socket.gethostname()
