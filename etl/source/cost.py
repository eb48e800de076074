"""The cost of reading: a task attempt's seconds and worker, and requests by broker, API and version.

A cost is measured in the worker, and returned with the task's range result. It is no part of what was read, so attempts
that differ in it still agree (`RangeResult.what_was_read`).

Requests are the difference between two snapshots of a process's counters (`client.wire.trace.TRAFFIC`): a Spark worker
is used for many tasks, one after the other, and the driver for many runs.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

from kseg.client.wire.trace import TRAFFIC, Tally

MAX_LINES = 200
"""Lines that one task returns; 200 are 40 brokers with five APIs each. More are added up under `OTHERS`."""

OTHERS = "others"

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class TrafficLine:
    """Traffic with one broker for one API and version. Bytes are those of whole frames; see
    `client.wire.trace.Tally`."""

    broker: str
    api: str
    version: int
    requests: int = 0
    responses: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    throttled_ms: int = 0
    errors: int = 0


def since(before: dict[Key, Tally]) -> tuple[TrafficLine, ...]:
    """The traffic added to this process's tallies after `before`; at most `MAX_LINES` lines."""
    lines = []
    for key, tally in TRAFFIC.snapshot().items():
        then = before.get(key, Tally())
        gained = [now - was for now, was in zip(_numbers(tally), _numbers(then), strict=True)]
        if any(gained):
            lines.append(TrafficLine(*key, *gained))
    return bounded(lines)


def added_up(lines: Iterable[TrafficLine]) -> tuple[TrafficLine, ...]:
    """One line for each broker, API and version, in this order."""
    sums: dict[Key, list[int]] = {}
    for line in lines:
        broker, api, version, *numbers = astuple(line)
        known = sums.setdefault((broker, api, version), [0] * len(numbers))
        for place, number in enumerate(numbers):
            known[place] += number
    return tuple(TrafficLine(*key, *numbers) for key, numbers in sorted(sums.items()))


def bounded(lines: Iterable[TrafficLine]) -> tuple[TrafficLine, ...]:
    """At most `MAX_LINES`: those with the most bytes, and the others added up by API and version."""
    ordered = sorted(lines, key=lambda line: line.bytes_in + line.bytes_out, reverse=True)
    if len(ordered) <= MAX_LINES:
        return tuple(ordered)
    rest = (TrafficLine(OTHERS, *astuple(line)[1:]) for line in ordered[MAX_LINES:])
    return (*ordered[:MAX_LINES], *added_up(rest))


def _numbers(tally: Tally) -> tuple[int, ...]:
    return (
        *(tally.requests, tally.responses, tally.bytes_out, tally.bytes_in),
        *(tally.throttled_ms, tally.errors),
    )


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
