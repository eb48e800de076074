"""Measured runs, and the medians and ratios computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

OURS, FILES, DEFAULT, TUNED = "ours", "ours_from_files", "spark_default", "spark_tuned"
RAW, SPARK = "ours_raw", "spark_decoded"
"""Compared with typed rows: the same topic as bytes, and Spark's tuned connector with Spark's decoding functions."""
SINKS = ("delta", "noop")


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """way: the contender. sink: the target of the rows; for typed rows their format. round: from 1. phases: seconds by
    phase, if reported.
    """

    way: str
    sink: str
    round: int
    rows: int
    seconds: float
    phases: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "sink": self.sink,
            "way": self.way,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "krows_per_second": round(self.rows / self.seconds / 1000, 1),
            **({"phases": self.phases} if self.phases else {}),
        }


def medians(runs: Sequence[MeasuredRun]) -> dict[str, dict[str, float]]:
    """Thousand rows per second by sink and way: `medians["kafka_to_delta"]["ours"]`."""
    return {
        f"kafka_to_{sink}": {
            way: round(runs_of[0].rows / median(run.seconds for run in runs_of) / 1000, 1)
            for way in (OURS, FILES, DEFAULT, TUNED)
            if (runs_of := _select(runs, way, sink))
        }
        for sink in SINKS
    }


def ratios(runs: Sequence[MeasuredRun]) -> dict[str, float]:
    """Our speed as a multiple of that of Spark's connector, and of files to the broker: quotients of median times."""

    def seconds(way: str, sink: str) -> float:
        return median(run.seconds for run in _select(runs, way, sink))

    found = {}
    for sink in SINKS:
        for peer in (TUNED, DEFAULT):
            found[f"kafka_to_{sink}_vs_{peer}"] = round(seconds(peer, sink) / seconds(OURS, sink), 2)
        found[f"files_to_{sink}_vs_kafka"] = round(seconds(OURS, sink) / seconds(FILES, sink), 2)
    return found


def _select(runs: Iterable[MeasuredRun], way: str, sink: str) -> list[MeasuredRun]:
    return [run for run in runs if run.way == way and run.sink == sink]
