"""Measures how costs grow with the number of partitions (plan, ledger, memory, plans with other unfinished runs), the
number of tables (commit), a job's age (`history`), and the number of workers of a real standalone cluster.

Each run is a separate process, with a new ledger, table and group. For workers, every round runs one and two in turn;
broker, driver and workers share the machine's cores, so two workers are twice as fast only if there are cores for them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from kseg.client.admin.topics import NewTopic, create_topics, delete_topics
from kseg.client.cluster.cluster import Cluster
from kseg.client.producer import produce
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench import history, planning
from kseg.jobs.bench.standalone import StandaloneSpark
from kseg.jobs.bench.workload import BenchTopic, client_config
from kseg.segment_reader.encode.batches import Record, encode_batch

RECORDS: Final = 3
"""Records in each partition: planning, ledger and commit do not depend on their number."""

#: Partitions in one request: a controller makes at most 10,000 metadata records from a request.
_AT_ONCE: Final = 2_500


@dataclass(frozen=True, slots=True)
class ScalingEffort:
    """partitions: numbers of partitions, with one ingest each. tables: numbers of topics with a table each; one ingest
    creates the tables and another one finds them. rounds: with one and two workers each. rows: that workers land; with
    few rows, only the start of Python workers would be measured."""

    partitions: tuple[int, ...]
    tables: tuple[int, ...]
    rounds: int
    rows: int
    history: history.HistoryEffort


FULL: Final = ScalingEffort((10, 100, 1_000, 10_000), (10, 100, 1_000, 10_000), 3, 20_000_000, history.FULL)
QUICK: Final = ScalingEffort((10, 200), (10, 50), 1, 100_000, history.QUICK)


def measure(servers: str, topic: BenchTopic, folder: Path, effort: ScalingEffort, progress: Progress) -> dict[str, Any]:
    """Measure all of these. topic: the one that workers read."""
    by_partitions = [_partitions(servers, folder / f"scaling-{count}", count) for count in effort.partitions]
    progress.phase("planning")
    plans = [planning.measure(count) for count in effort.partitions]
    progress.phase("tables")
    by_tables = [_tables(servers, folder / f"tables-{count}", count) for count in effort.tables]
    progress.phase("history")
    by_age = history.measure(folder, effort.history)
    progress.phase("workers")
    workers = _workers(servers, topic, folder, effort.rounds)
    return {"partitions": by_partitions, "planning": plans, "tables": by_tables, **by_age, "workers": workers}


# --- partitions


def _partitions(servers: str, folder: Path, count: int) -> dict[str, Any]:
    topics = [f"scaling-{count}-{first}" for first in range(0, count, _AT_ONCE)]
    with _patient(servers) as cluster:
        for topic in topics:
            partitions = min(count, _AT_ONCE)
            create_topics(cluster, [NewTopic(topic, partitions, 1)]).or_raise()
            _fill(cluster, [TopicPartition(topic, partition) for partition in range(partitions)])
    job = _job(folder, servers, topics, "local[2]")
    plan = _run(job, "--plan")
    ingest = _run(job)
    files = len(list((folder / "table").glob("*.parquet")))
    _drop(servers, topics)
    return {"partitions": count, "plan": plan, "ingest": ingest, "ledger_bytes": _ledger_bytes(folder), "files": files}


def _ledger_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "ledger").rglob("*") if file.is_file())


def _patient(servers: str) -> Cluster:
    """A cluster with a long API timeout: with thousands of partitions, it takes long until a broker leads them all."""
    return Cluster(replace(client_config(servers), default_api_timeout_ms=600_000))


def _fill(cluster: Cluster, partitions: Sequence[TopicPartition]) -> None:
    records = [Record(key=b"%d" % number, value=b"order") for number in range(RECORDS)]
    for first in range(0, len(partitions), 500):
        produce(cluster, {tp: encode_batch(records) for tp in partitions[first : first + 500]})


def _drop(servers: str, topics: Sequence[str]) -> None:
    """Delete topics: a broker keeps each partition's files open, and may open about 20,000, too few for the section."""
    with _patient(servers) as cluster:
        for start in range(0, len(topics), _AT_ONCE):
            delete_topics(cluster, topics[start : start + _AT_ONCE]).or_raise()


# --- tables


def _tables(servers: str, folder: Path, count: int) -> dict[str, Any]:
    partitions = [TopicPartition(f"table-{count}-{number}", 0) for number in range(count)]
    with _patient(servers) as cluster:
        for start in range(0, count, _AT_ONCE):
            create_topics(cluster, [NewTopic(tp.topic, 1, 1) for tp in partitions[start : start + _AT_ONCE]]).or_raise()
        _fill(cluster, partitions)
        job = _job(folder, servers, [tp.topic for tp in partitions], "local[2]", table="tables/{topic}")
        first = _run(job)
        _fill(cluster, partitions)
    again = _run(job)
    _drop(servers, [tp.topic for tp in partitions])
    return {"tables": count, "first": first, "again": again, "ledger_bytes": _ledger_bytes(folder)}


# --- workers


def _workers(servers: str, topic: BenchTopic, folder: Path, rounds: int) -> dict[str, Any]:
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for workers, taken in seconds.items():
            with StandaloneSpark(folder / f"cluster-{number}-{workers}", workers=workers, cores=1) as cluster:
                place = folder / f"workers-{number}-{workers}"
                report = _run(_job(place, servers, [topic.name], cluster.url))
                if report["rows"] != topic.rows:
                    raise ValueError(f"{report['rows']} rows have landed of {topic.rows}")
                taken.append(report["phases"]["land"])
    of_one, of_two = (median(seconds[workers]) for workers in (1, 2))
    return {
        "rows": topic.rows,
        "rounds": rounds,
        "land_seconds": {str(workers): taken for workers, taken in seconds.items()},
        "two_over_one": round(of_one / of_two, 2),
    }


# --- runs


def _job(folder: Path, servers: str, topics: Sequence[str], master: str, table: str = "table") -> Path:
    folder.mkdir(parents=True)
    document = {
        "version": 1,
        "name": "scaling",
        "kafka": {"bootstrap.servers": servers},
        "source": {"topics": list(topics)},
        "sink": {"path": str(folder / table)},
        "ledger": str(folder / "ledger"),
        "group": folder.name,
        "spark": {"master": master},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def _run(job: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kseg.jobs.bench.one_run", str(job), *arguments]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    document: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return document
