"""A day of one-minute runs from a topic of 64 partitions into a table partitioned by day, with late records: file sizes
and query times before and after `kseg maintain --optimize`.

For each minute, each partition gets some records of 40 columns (`kseg.jobs.bench.lake`), which a run of the same job
lands. One record in twenty is late: half of these by one day, a quarter by two and so on, by 29 at most. The runs are
in one process and one Spark session, with the job's defaults, on a local disk (`kseg.jobs.bench.store` counts
requests).

Reported about the table: files and their sizes, the share of bytes in files of at least 64 MB, the largest file's share
of its partition's bytes (if a day has too few bytes for such files, this is the most that compaction can reach), the
log's files and bytes, and the seconds to open the table and to sum a column of one day and of all days, with delta-rs
and pyarrow. About runs: the median time of the first and of the last tenth, which shows whether runs become slower.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.producer import produce
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import load_job
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench import lake
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.session import MASTER
from kseg.jobs.bench.workload import FIRST_TIMESTAMP, client_config
from kseg.segment_reader.encode.batches import Record, encode_batch

PARTITIONS: Final = 64
LARGE: Final = 64 * 1000 * 1000
"""Bytes from which on a file is large enough."""

LATE: Final = 0.05
_LATER: Final = 0.5  # of the records that are late by n days, the share that is late by at least one day more
_DISTINCT: Final = 8
"""The number of minutes for which records are made; they are written repeatedly."""

_SIZES: Final = {"below_1_mb": 1_000_000, "1_to_16_mb": 16_000_000, "16_to_64_mb": LARGE}
_TOPIC: Final = "day"
_SUMMED: Final = "net"


@dataclass(frozen=True, slots=True)
class DayEffort:
    """runs: each lands one minute. records: number of records of each partition in a minute."""

    runs: int
    records: int


FULL: Final = DayEffort(1_440, 100)
QUICK: Final = DayEffort(60, 10)


def measure(servers: str, folder: Path, effort: DayEffort, progress: Progress) -> dict[str, Any]:
    """Measure in the running Spark session. Raises WrongCount."""
    folder.mkdir()
    job = load_job(_job(servers, folder))
    table = folder / "table"
    seconds = []
    expected = effort.runs * effort.records * PARTITIONS
    progress.total(expected)
    with Cluster(client_config(servers)) as cluster:
        keep = {"retention.ms": "-1"}  # the records' timestamps are of the past
        create_topic(cluster, _TOPIC, partitions=PARTITIONS, replication_factor=1, config=keep)
        minutes = [_minute(number, effort.records) for number in range(min(_DISTINCT, effort.runs))]
        for number in range(effort.runs):
            produce(cluster, minutes[number % len(minutes)])
            began = time.perf_counter()
            run_ingest(job)
            seconds.append(time.perf_counter() - began)
            progress.advance(expected // effort.runs)
    before = look(table)
    if before["rows"] != expected:
        raise WrongCount(f"{before['rows']} rows have landed of {expected}")
    began = time.perf_counter()
    maintain_job(job, MaintenanceRequest(vacuum=None))
    maintained = time.perf_counter() - began
    after = look(table)
    if (after["rows"], after["sum"]) != (before["rows"], before["sum"]):
        raise WrongCount(f"{table} has other rows after its maintenance: {after} instead of {before}")
    tenth = max(1, effort.runs // 10)
    return {
        "runs": effort.runs,
        "rows": expected,
        "run_seconds": {
            "first_tenth": round(median(seconds[:tenth]), 2),
            "last_tenth": round(median(seconds[-tenth:]), 2),
        },
        "maintain_seconds": round(maintained, 2),
        "stages": [{"case": "after the day", **before}, {"case": "after maintain", **after}],
        "times_as_slow_before": {
            query: round(before[query] / max(after[query], 0.001), 1)
            for query in ("open_seconds", "one_day_seconds", "all_days_seconds")
        },
    }


# --- records


def days_late(random: Random) -> int:
    """By how many days a record is late; 0 for most."""
    late = 0
    if random.random() < LATE:
        late = 1
        while late < lake.DAYS - 1 and random.random() < _LATER:
            late += 1
    return late


def _minute(number: int, records: int) -> Mapping[TopicPartition, bytes]:
    """A batch for each partition."""
    return {
        TopicPartition(_TOPIC, partition): encode_batch(
            [_record(Random(f"{number} {partition} {one}")) for one in range(records)], compression="lz4"
        )
        for partition in range(PARTITIONS)
    }


def _record(random: Random) -> Record:
    made = lake.row(random)
    day = lake.DAYS - 1 - days_late(random)
    made["created_at"] = FIRST_TIMESTAMP + day * lake.DAY_MS + random.randrange(lake.DAY_MS)
    value = json.dumps(lake.as_json(made), separators=(",", ":"), ensure_ascii=False)
    return Record(b"%d" % (random.getrandbits(32)), value.encode(), (), FIRST_TIMESTAMP + day * lake.DAY_MS)


def _job(servers: str, folder: Path) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "day",
        "kafka": {"bootstrap.servers": servers},
        "group": "bench-day",
        "source": {"topics": [_TOPIC]},
        "decode": {"value": {"format": "json", "schema": {"columns": dict(lake.COLUMNS)}}},
        "sink": {"path": str(folder / "table"), "partition_by": [{"day": "created_at"}]},
        "ledger": str(folder / "ledger"),
        "spark": {"master": MASTER},
    }


# --- the table


def look(table: Path) -> dict[str, Any]:
    """The table's current state: rows and their sum, files, log, and seconds of queries (medians of three)."""
    opened = DeltaTable(str(table))
    added = pa.table(opened.get_add_actions(flatten=True))
    days = added.column(f"partition.{lake.PARTITION}").to_pylist()
    log = [file.stat().st_size for file in (table / "_delta_log").rglob("*") if file.is_file()]
    return {
        "rows": opened.count(),
        "sum": str(added_up(table, None)),
        **files_of(added.column("size_bytes").to_pylist(), days),
        "log_files": len(log),
        "log_mib": round(sum(log) / (1 << 20), 2),
        "open_seconds": _seconds(lambda: DeltaTable(str(table))),
        "one_day_seconds": _seconds(lambda: added_up(table, max(days))),
        "all_days_seconds": _seconds(lambda: added_up(table, None)),
    }


def files_of(sizes: Sequence[int], days: Sequence[Any]) -> dict[str, Any]:
    """Statistics of files by their sizes (bytes) and partitions. Shares are of all bytes."""
    total = sum(sizes)
    shares, least = {}, 0
    for name, most in _SIZES.items():
        shares[name] = round(sum(size for size in sizes if least <= size < most) / total, 3)
        least = most
    largest: dict[Any, int] = {}
    for size, day in zip(sizes, days, strict=True):
        largest[day] = max(largest.get(day, 0), size)
    return {
        "files": len(sizes),
        "mib": round(total / (1 << 20), 1),
        "median_file_kib": round(median(sizes) / 1024, 1),
        "bytes_in_files": shares | {"of_64_mb": round(sum(size for size in sizes if size >= LARGE) / total, 3)},
        "in_largest_of_its_day": round(sum(largest.values()) / total, 3),
    }


def added_up(table: Path, day: Any) -> Any:
    """The sum of the column for one day (None: for all days); opens the table."""
    files = SubTreeFileSystem(str(table), LocalFileSystem())  # delta-rs' own, in Python, can abort at exit
    only = None if day is None else [(lake.PARTITION, "=", day)]
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=[_SUMMED], filters=only, filesystem=files)
    return pc.sum(rows.column(_SUMMED)).as_py()


def _seconds(work: Callable[[], Any]) -> float:
    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return round(median(once() for _ in range(3)), 3)
