"""Run ``kseg ingest`` and ``kseg redrive`` as a user would: in a process of their own, with JSON and exit code read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

JOB = """version: 1
name: demo
kafka:
  bootstrap.servers: "{bootstrap_servers}"
source:
  topics: [{topic}]
  isolation_level: read_committed
  starting_offsets: earliest
  max_records_per_task: 50000
sink:
  path: ./lake/{topic}
group: {group}
ledger: ./lake/_kseg_ledger
spark:
  master: "local[2]"
"""

ORDERS_JOB = """version: 1
name: orders
kafka:
  bootstrap.servers: "{bootstrap_servers}"
source:
  topics: [{topic}]
registry:
  url: {registry}
decode:
  value:
    format: avro
    schema: registry
  on_error: dead_letter
{expect}sink:
  path: ./lake/{topic}
  dead_letters: {{max: 10%}}
group: {topic}-etl
ledger: ./lake/_kseg_orders_ledger
spark:
  master: "local[2]"
"""
_EXPECT = """\
  expect: {amount: ">= 0"}
"""


class RunFailed(Exception):
    """A command ended with another exit code than 0; its own words were printed already."""

    def __init__(self, command: str, exit_code: int, reason: str) -> None:
        super().__init__(f"kseg {command} ended with exit code {exit_code}: {reason}")
        self.exit_code = exit_code


def write_job(path: Path, *, bootstrap_servers: str, topic: str, group: str) -> None:
    """Write the demo's job file, which is one that a user could have written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JOB.format(bootstrap_servers=bootstrap_servers, topic=topic, group=group))


def write_orders_job(path: Path, *, bootstrap_servers: str, registry: str, topic: str, expect: bool) -> None:
    """Write the job of typed orders. expect: no negative amounts."""
    form = {"bootstrap_servers": bootstrap_servers, "registry": registry, "topic": topic}
    path.write_text(ORDERS_JOB.format(**form, expect=_EXPECT if expect else ""))


def redrive(job: Path) -> dict[str, Any]:
    """Runs `kseg redrive`, as `ingest` runs `kseg ingest`."""
    return ingest(job, "redrive")


def ingest(job: Path, word: str = "ingest") -> dict[str, Any]:
    """One run of a job; returns what ``--json`` printed. Raises RunFailed.

    Its progress goes to this process's standard error. When this process is interrupted, the run and all that it
    started (Spark's JVM, the Python workers) are ended before the interruption goes on. A terminal's Ctrl-C does not
    reach the run itself: once it is gone, its child processes are no longer known.
    """
    command = [sys.executable, "-m", "kseg.jobs.cli", word, str(job), "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            out, _ = process.communicate()
        except BaseException:
            _end(process, _family(process.pid))
            raise
    if process.returncode != 0:
        raise RunFailed(word, process.returncode, _error_of(out))
    report: dict[str, Any] = json.loads(out)
    return report


def _error_of(out: str) -> str:
    try:
        return str(json.loads(out)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return out.strip() or "it printed nothing"


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _end(process: subprocess.Popen[str], family: list[psutil.Process]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=10)
    for left in alive:
        left.kill()
    psutil.wait_procs(alive, timeout=10)
