"""Requests by broker, API and version, as the difference between two snapshots of a process's counters.

A Spark worker is used for many tasks, one after the other, and the driver for many runs: so the cost of one of them is
what the counters of its process (`client.wire.trace.TRAFFIC`) have gained meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from kseg.client.wire.trace import TRAFFIC, Tally

MAX_LINES = 200
"""Lines that one task returns; 200 are 40 brokers with five APIs each. More are added up under `OTHERS`."""

OTHERS = "others"

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class TrafficLine:
    """What went to one broker for one API and version. Bytes are those of whole frames; see
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
    """What was added to this process's tallies after `before`; at most `MAX_LINES` lines."""
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
