"""Duration of small runs from a cold start, from the start of the process to its end: `kseg ingest` of twelve records,
the same job again with nothing to do, and Spark's tuned connector in a process with the same session settings.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from deltalake import DeltaTable

from kseg.jobs.bench.contenders import WrongCount, job_file
from kseg.jobs.bench.figures import OURS, TUNED
from kseg.jobs.bench.workload import BenchTopic

ROWS: Final = 12
IDLE: Final = "idle"


def measure(topic: BenchTopic, folder: Path, *, times: int) -> dict[str, Any]:
    """Median seconds by way, the phases of our run (`start`: the time outside of the phases), and the ratio."""
    seconds: dict[str, list[float]] = {OURS: [], IDLE: [], TUNED: []}
    phases: list[tuple[float, dict[str, float]]] = []
    for number in range(times):
        place = folder / f"cold-{number}"
        place.mkdir()
        try:
            job = job_file(topic, place)
            taken, of_phases = _ingest(job, topic.rows)
            phases.append((taken, of_phases))
            seconds[OURS].append(taken)
            seconds[IDLE].append(_ingest(job, 0)[0])
            seconds[TUNED].append(_connector(topic, place))
        finally:
            shutil.rmtree(place, ignore_errors=True)
    whole, of_phases = sorted(phases, key=lambda one: one[0])[(times - 1) // 2]
    return {
        "rows": topic.rows,
        "seconds": {way: round(median(all_of), 2) for way, all_of in seconds.items()},
        "phases": {"start": round(whole - of_phases["total"], 2)}
        | {k: v for k, v in of_phases.items() if k != "total"},
        "ratios": {f"{OURS}_vs_{TUNED}": round(median(seconds[TUNED]) / median(seconds[OURS]), 2)},
    }


def _ingest(job: Path, rows: int) -> tuple[float, dict[str, float]]:
    taken, output = _timed("kseg.jobs.cli", "ingest", str(job), "--json")
    report = json.loads(output)
    landed = report.get("counts", {}).get("rows_out", 0)
    if landed != rows:
        raise WrongCount(f"a cold run landed {landed} rows, the topic has {rows} more")
    return taken, report["seconds"]


def _connector(topic: BenchTopic, folder: Path) -> float:
    place = folder / "spark"
    taken, _ = _timed("kseg.jobs.bench.cold_connector", topic.servers, topic.name, str(place))
    rows = int(DeltaTable(str(place / "table")).count())
    if rows != topic.rows:
        raise WrongCount(f"the connector landed {rows} rows, the topic has {topic.rows}")
    return taken


def _timed(module: str, *arguments: str) -> tuple[float, str]:
    """Seconds of a whole process, and its output."""
    began = time.perf_counter()
    completed = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True, timeout=600
    )
    return time.perf_counter() - began, completed.stdout
