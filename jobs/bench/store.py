"""Jobs that land in an object store with a latency of 20 ms for each request, compared with the same jobs on a disk.

    disk          table and ledger in a folder
    store         both in a bucket of a real S3 server on this machine (`kseg.jobs.bench.s3proxy`)
    store, 20 ms  the same, with each request delayed by 20 ms (`kseg.jobs.bench.relay`)

Topics: one that lands as bytes, and one of 40 columns partitioned by day (`kseg.jobs.bench.lake`), which writes a file
for each task and day. Each round lands each topic once in each case, in turn, with a new job and a new table, and then
runs the job again with nothing to do; all jobs of a place have the same ledger. Rows are counted in the server's files.

The relay counts requests: those for the table's Parquet files, those with which a job that creates a table checks that
the store is put-if-absent (400, once for each table), and all others (the table's log, the ledger). Spark's connector
is not measured: to write there, Spark needs hadoop-aws, which is in no jar set.

It is a separate process, because the JVM and its workers keep the environment variables of their start:

    python -m kseg.jobs.bench.store PLAN        as JSON, see `Plan`
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

from kseg.etl.ledger.store import Ledger
from kseg.jobs.bench import lake
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.relay import Relay, RelayedLink, RelayedTraffic
from kseg.jobs.bench.s3proxy import environment, s3proxy
from kseg.jobs.bench.session import MASTER, bench_session
from kseg.jobs.bench.workload import BenchTopic
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST

DISK, STORE, LATE = CASES = ("disk", "store", "store, 20 ms")
LATE_BY: Final = 0.02
"""Seconds."""

BUCKET: Final = "lake"
_GB: Final = 1e9


@dataclass(frozen=True)
class Plan:
    """raw, wide: the topic that lands as bytes, and that of JSON with 40 columns. folder: for all files."""

    raw: BenchTopic
    wide: BenchTopic
    folder: str
    rounds: int
    warm_up: int


def measure(plan: Plan) -> dict[str, Any]:
    """Measure in a separate process, which writes its messages to this process's stderr."""
    command = [sys.executable, "-m", "kseg.jobs.bench.store", json.dumps(asdict(plan))]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return found


@dataclass(frozen=True, slots=True)
class StoreLanding:
    """One run, and the next run, which had nothing to do. size: bytes of the table's Parquet files."""

    seconds: float
    land_seconds: float
    size: int
    passed: RelayedTraffic
    idle_seconds: float
    idle_requests: int

    @property
    def requests(self) -> int:
        return sum(self.passed.requests.values())

    @property
    def data_requests(self) -> int:
        """The number of requests for the table's Parquet files."""
        return sum(
            number
            for request, number in self.passed.requests.items()
            if "/table/" in request and "/_delta_log" not in request and "/_kseg/" not in request
        )

    @property
    def check_requests(self) -> int:
        """The number of requests with which a job checks that the store is put-if-absent."""
        return sum(number for request, number in self.passed.requests.items() if "/_kseg/" in request)


def figures(topic: str, rows: int, landed: Mapping[str, Sequence[StoreLanding]]) -> list[dict[str, Any]]:
    """One entry for each case of a topic: medians, requests, and how many times as fast as on the disk."""
    found = []
    for case, runs in landed.items():
        seconds = median(run.seconds for run in runs)
        size = median(run.size for run in runs)
        entry = {
            "case": f"{topic}, {case}",
            "rows": rows,
            "krows_per_second": round(rows / seconds / 1000, 1),
            "seconds": round(seconds, 2),
            "land_seconds": round(median(run.land_seconds for run in runs), 2),
            "idle_seconds": round(median(run.idle_seconds for run in runs), 2),
            "mib": round(size / (1 << 20), 1),
        }
        if case != DISK:
            data = median(run.data_requests for run in runs)
            entry |= {
                "requests": round(median(run.requests for run in runs)),
                "data_requests": round(data),
                "check_requests": round(median(run.check_requests for run in runs)),
                "data_requests_a_gb": round(data / (size / _GB)),
                "idle_requests": round(median(run.idle_requests for run in runs)),
                "ratio": round(median(run.seconds for run in landed[DISK]) / seconds, 2),
            }
        found.append(entry)
    return found


# --- in the process


def _measure(plan: Plan) -> dict[str, Any]:
    folder = Path(plan.folder)
    (front,) = free_ports(1)
    os.environ.update({**environment(front), "AWS_ALLOW_HTTP": "true"})
    with (
        s3proxy(folder / "s3", BUCKET) as store,
        Relay([RelayedLink(HOST, front, HOST, store.port, in_turn="if-none-match")]) as relay,
        bench_session(folder),
    ):
        # Creating a ledger checks its store with some hundred requests: do this here, not in a measured run.
        for root in (str(store.bucket), f"s3://{BUCKET}"):
            Ledger.open(_ledger(root))
        landed: dict[str, dict[str, list[StoreLanding]]] = {
            name: {case: [] for case in CASES} for name in ("raw", "wide")
        }
        for number in range(plan.warm_up + plan.rounds):
            for name, topic in (("raw", plan.raw), ("wide", plan.wide)):
                for case in CASES:
                    relay.hold(there=LATE_BY if case == LATE else 0.0, back=0.0)
                    run = _land(topic, store.bucket, case, relay, wide=name == "wide")
                    if number >= plan.warm_up:
                        landed[name][case].append(run)
    cases = figures("raw", plan.raw.rows, landed["raw"]) + figures("wide", plan.wide.rows, landed["wide"])
    return {"late_by_ms": round(1000 * LATE_BY), "cases": cases}


def _land(topic: BenchTopic, bucket: Path, case: str, relay: Relay, *, wide: bool) -> StoreLanding:
    """Raises WrongCount."""
    from deltalake import DeltaTable

    from kseg.etl.config.load import load_job
    from kseg.etl.run.pipeline import run_ingest

    place = bucket / uuid4().hex[:8]
    place.mkdir()
    document = _job(topic, str(bucket) if case == DISK else f"s3://{BUCKET}", place.name, wide=wide)
    try:
        relay.take()
        began = time.perf_counter()
        report = run_ingest(load_job(document))
        seconds, passed = time.perf_counter() - began, relay.take()
        began = time.perf_counter()
        run_ingest(load_job(document))
        idle_seconds, idle = time.perf_counter() - began, relay.take()
        rows = DeltaTable(str(place / "table")).count()
        files = [file for file in (place / "table").rglob("*.parquet") if "_delta_log" not in file.parts]
        size = sum(file.stat().st_size for file in files)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if rows != topic.rows:
        raise WrongCount(f"{case}: {rows} rows have landed of {topic.rows}")
    return StoreLanding(seconds, report.seconds["land"], size, passed, idle_seconds, sum(idle.requests.values()))


def _ledger(root: str) -> str:
    return f"{root}/ledger" if "://" in root else f"{root}/ledger-on-disk"


def _job(topic: BenchTopic, root: str, name: str, *, wide: bool) -> dict[str, Any]:
    job: dict[str, Any] = {
        "version": 1,
        "name": f"bench-{name}",
        "kafka": {"bootstrap.servers": topic.servers},
        "group": f"bench-{uuid4().hex[:8]}",
        "source": {"topics": [topic.name]},
        "sink": {"path": f"{root}/{name}/table"},
        "ledger": _ledger(root),
        "spark": {"master": MASTER},
    }
    if wide:
        job["decode"] = {"value": {"format": "json", "schema": {"columns": dict(lake.COLUMNS)}}}
        job["sink"]["partition_by"] = [{"day": "created_at"}]
    return job


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    raw, wide = (BenchTopic(**given.pop(name)) for name in ("raw", "wide"))
    print(json.dumps(_measure(Plan(raw, wide, **given))))
