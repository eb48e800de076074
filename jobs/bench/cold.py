"""Whole processes from a cold start: their time from start to end, and the processor time of all their processes.

A small topic and a larger one, each landed in a new table by `kseg ingest` with the local engine, by `kseg ingest` with
Spark, and by Spark's tuned connector with the same session settings. Beside them, of the local engine's job: the same
job again with nothing to do, and `kseg plan`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from deltalake import DeltaTable

from kseg.jobs.bench.contenders import WrongCount, job_file
from kseg.jobs.bench.figures import TUNED
from kseg.jobs.bench.usage import Usage, usage_of
from kseg.jobs.bench.workload import BenchTopic

ROWS: Final = (1_000, 100_000)
LOCAL: Final = "ours_local"
OURS_SPARK: Final = "ours_spark"
IDLE: Final = "idle"
PLAN: Final = "plan"
WAYS: Final = (PLAN, LOCAL, IDLE, OURS_SPARK, TUNED)


def measure(topics: Sequence[BenchTopic], folder: Path, *, times: int, ways: Collection[str] = WAYS) -> dict[str, Any]:
    """Median seconds and processor seconds by topic and way, the phases of our median run (`start`: the time outside of
    the phases), and how many times as fast as the connector ours is.

    Raises WrongCount: a run landed another number of rows than the topic has.
    """
    return {"cases": [_case(topic, folder, times, ways) for topic in topics]}


def _case(topic: BenchTopic, folder: Path, times: int, ways: Collection[str]) -> dict[str, Any]:
    used: dict[str, list[Usage]] = {}
    for number in range(times):
        place = folder / f"cold-{topic.rows}-{number}"
        place.mkdir()
        try:
            for way, usage in _round(topic, place, ways):
                used.setdefault(way, []).append(usage)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    seconds = {way: median(usage.seconds for usage in all_of) for way, all_of in used.items()}
    processor = {way: median(usage.cpu_seconds for usage in all_of) for way, all_of in used.items()}
    return {
        "case": f"{topic.rows} records",
        "rows": topic.rows,
        "seconds": {way: round(value, 2) for way, value in seconds.items()},
        "cpu_seconds": {way: round(value, 2) for way, value in processor.items()},
        "phases": {way: _phases(used[way]) for way in (LOCAL, OURS_SPARK, IDLE) if way in used},
        "ratios": {
            f"{way}_vs_{TUNED}": round(seconds[TUNED] / seconds[way], 2)
            for way in (LOCAL, OURS_SPARK)
            if {way, TUNED} <= used.keys()
        },
    }


def _round(topic: BenchTopic, folder: Path, ways: Collection[str]) -> Iterator[tuple[str, Usage]]:
    """Each way once, in the order of WAYS, so that a change of the machine's speed affects all of them."""
    local, spark = (folder / name for name in ("local", "spark"))
    for place in (local, spark):
        place.mkdir()
    job, on_spark = (job_file(topic, local, engine="local"), job_file(topic, spark, engine="spark"))
    runs: dict[str, Callable[[], Usage]] = {
        PLAN: lambda: usage_of("kseg.jobs.cli", "plan", str(job), "--json"),
        LOCAL: lambda: _ingest(job, topic.rows),
        IDLE: lambda: _ingest(job, 0),
        OURS_SPARK: lambda: _ingest(on_spark, topic.rows),
        TUNED: lambda: _connector(topic, folder / "connector"),
    }
    for way in WAYS:
        if way in ways:
            yield way, runs[way]()


def _ingest(job: Path, rows: int) -> Usage:
    usage = usage_of("kseg.jobs.cli", "ingest", str(job), "--json")
    landed = json.loads(usage.output).get("counts", {}).get("rows_out", 0)
    if landed != rows:
        raise WrongCount(f"a cold run landed {landed} rows, the topic has {rows} more")
    return usage


def _connector(topic: BenchTopic, folder: Path) -> Usage:
    usage = usage_of("kseg.jobs.bench.cold_connector", topic.servers, topic.name, str(folder))
    rows = int(DeltaTable(str(folder / "table")).count())
    if rows != topic.rows:
        raise WrongCount(f"the connector landed {rows} rows, the topic has {topic.rows}")
    return usage


def _phases(used: Sequence[Usage]) -> dict[str, float]:
    """Seconds by phase of the median run."""
    middle = sorted(used, key=lambda usage: usage.seconds)[(len(used) - 1) // 2]
    of_phases = dict(json.loads(middle.output)["seconds"])
    return {"start": round(middle.seconds - of_phases.pop("total"), 2)} | of_phases
