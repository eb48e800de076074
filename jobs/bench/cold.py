"""How long a small run takes from a cold start: `kseg ingest` of a thousand records, from process start to end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kseg.jobs.bench.contenders import WrongCount, job_file
from kseg.jobs.bench.workload import BenchTopic

ROWS = 1000


def measure(topic: BenchTopic, folder: Path, *, times: int) -> dict[str, Any]:
    """The median of several runs in seconds, and its phases; `start` is the time before the first phase."""
    runs = sorted((_one(topic, folder / f"cold-{number}") for number in range(times)), key=lambda run: run[0])
    seconds, phases = runs[(times - 1) // 2]
    return {
        "rows": topic.rows,
        "seconds": round(seconds, 2),
        "phases": {"start": round(seconds - phases["total"], 2)} | {k: v for k, v in phases.items() if k != "total"},
    }


def _one(topic: BenchTopic, folder: Path) -> tuple[float, dict[str, float]]:
    folder.mkdir()
    try:
        command = [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(job_file(topic, folder)), "--json"]
        began = time.perf_counter()
        completed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        seconds = time.perf_counter() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report = json.loads(completed.stdout)
    if report["counts"]["rows_out"] != topic.rows:
        raise WrongCount(f"a cold run landed {report['counts']['rows_out']} rows, the topic has {topic.rows}")
    return seconds, report["seconds"]
