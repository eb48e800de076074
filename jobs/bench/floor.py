"""Benchmark of a large topic that lands without a transform: a whole run, its bare parts, and Spark's tuned connector.

The bare parts are the steps that every way from Kafka to Parquet needs: fetch and verify checksums, decode to Arrow,
and write Parquet with pyarrow's defaults and snappy. They run as in the first prototype: in one process, one partition
after the other, without Spark, ledger, table or accounting. So their CPU time depends only on fetching and decoding,
not on how a run writes.

    python -m kseg.jobs.bench.floor SERVERS TOPIC PARTITIONS ROWS FOLDER        that process; ROWS: of each partition
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kseg.jobs.bench.contenders import TUNING, Contender, WrongCount, connector_to_delta, ours_to_delta
from kseg.jobs.bench.figures import OURS, TUNED
from kseg.jobs.bench.matrix import cpu_seconds
from kseg.jobs.bench.workload import BenchTopic, client_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARE: Final = "bare_parts"
_ROW_GROUP: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FloorEffort:
    """rows: records in the topic. rounds: measured rounds, whose median is reported; a warm-up round precedes them."""

    rows: int
    rounds: int


FULL: Final = FloorEffort(10_000_000, 3)
QUICK: Final = FloorEffort(200_000, 1)


def measure(
    spark: SparkSession, topic: BenchTopic, broker: Collection[int], folder: Path, effort: FloorEffort
) -> dict[str, Any]:
    """broker: the processes whose CPU time is not counted. Raises WrongCount."""
    sides = (
        Contender(OURS, "delta", lambda place: ours_to_delta(topic, None, place)),
        Contender(TUNED, "delta", lambda place: connector_to_delta(spark, topic, TUNING, place)),
    )
    seconds: dict[str, list[float]] = {OURS: [], TUNED: []}
    processor: dict[str, list[float]] = {OURS: [], TUNED: [], BARE: []}
    reading: list[float] = []
    for number in range(effort.rounds + 1):
        found = _in_a_process(topic, folder / "bare")
        if number:
            processor[BARE].append(found["read_cpu_seconds"] + found["write_cpu_seconds"])
            reading.append(found["read_cpu_seconds"])
        for side in sides:
            before = cpu_seconds(broker)
            run = side.measure(folder, number, topic.rows)
            spent = cpu_seconds(broker) - before
            if number:
                seconds[side.way].append(run.seconds)
                processor[side.way].append(spent)
    millions = topic.rows / 1e6
    whole, bare = median(processor[OURS]), median(processor[BARE])
    return {
        "rows": topic.rows,
        "krows_per_second": {way: round(topic.rows / median(all_of) / 1000, 1) for way, all_of in seconds.items()},
        "cpu_seconds_a_million_rows": {way: round(median(all_of) / millions, 3) for way, all_of in processor.items()},
        "read_cpu_seconds_a_million_rows": round(median(reading) / millions, 3),
        "times_bare_parts": round(whole / bare, 2),
        "ratios": {
            "vs_spark_tuned": round(median(seconds[TUNED]) / median(seconds[OURS]), 2),
            "cpu_of_bare_parts": round(bare / whole, 2),  # the more the better, as of all ratios
        },
    }


def _in_a_process(topic: BenchTopic, folder: Path) -> dict[str, float]:
    rows = topic.rows // topic.partitions
    arguments = [topic.servers, topic.name, str(topic.partitions), str(rows), str(folder)]
    command = [sys.executable, "-m", "kseg.jobs.bench.floor", *arguments]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=1800)
    found: dict[str, float] = json.loads(completed.stdout)
    if found["rows"] != topic.rows:
        raise WrongCount(f"the bare parts gave {found['rows']} rows, the topic has {topic.rows}")
    return found


def bare(servers: str, topic: str, partitions: int, rows: int, folder: Path) -> dict[str, float]:
    """Row count, and CPU seconds of reading and writing. Compiled code is loaded first. folder: created and removed."""
    folder.mkdir()
    try:
        _Bare(servers, topic, folder).partition(0, min(rows, 1000))
        measured = _Bare(servers, topic, folder)
        for number in range(partitions):
            measured.partition(number, rows)
    finally:
        shutil.rmtree(folder)
    return {
        "rows": measured.rows,
        "read_cpu_seconds": round(measured.whole - measured.write, 3),
        "write_cpu_seconds": round(measured.write, 3),
    }


class _Bare:
    """whole: CPU seconds of this process, all threads; write: the part of them that writing Parquet takes."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self._config, self._topic, self._folder = client_config(servers), topic, folder
        self.rows, self.whole, self.write = 0, 0.0, 0.0

    def partition(self, number: int, rows: int) -> None:
        import pyarrow.parquet as pq

        from kseg.etl.source.decode_options import DecodeOptions
        from kseg.etl.source.reader import RangeReader
        from kseg.etl.source.tasks import RangeTask

        began, writer = time.process_time(), None
        for batch in RangeReader(RangeTask(self._topic, number, 0, rows), self._config, DecodeOptions()):
            # CPU time of this thread only: meanwhile another thread fetches the next response.
            before = time.thread_time()
            if writer is None:
                writer = pq.ParquetWriter(self._folder / f"{number}.parquet", batch.schema, compression="snappy")
            writer.write_batch(batch, row_group_size=_ROW_GROUP)
            self.write += time.thread_time() - before
            self.rows += batch.num_rows
        before = time.thread_time()
        if writer is not None:
            writer.close()
        self.write += time.thread_time() - before
        self.whole += time.process_time() - began


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(bare(given[0], given[1], int(given[2]), int(given[3]), Path(given[4]))))
