"""All measurements, one after the other, and what they add up to."""

from __future__ import annotations

import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from etl.progress import Progress
from jobs.bench import cold, decoding, memory, producing
from jobs.bench.contenders import contenders
from jobs.bench.figures import Run, medians, ratios
from jobs.bench.session import CONNECTOR, JAR_SETS, MASTER, bench_session
from jobs.bench.workload import PARTITIONS, BenchTopic, fill_topic
from jobs.broker import EmbeddedKafka, jars

ROWS, QUICK_ROWS = 2_000_000, 100_000
ROUNDS, QUICK_ROUNDS = 5, 2
COLD_RUNS = 5

CAVEATS = (
    "Spark's connector runs with jars of mixed versions, since its own set cannot be resolved: see versions.connector",
    "broker, driver and tasks share the machine's cores; trust ratios, not absolute figures",
)


def measure(*, quick: bool, progress: Progress) -> dict[str, Any]:
    """Decode, then both sides in turn on one broker, one topic and one session.

    Raises:
        WrongCount: a run gave another number of rows than the topic has.
        JarsUnavailable, BrokerError: what is needed cannot be had.
    """
    progress.phase("decode")
    decoded = list(decoding.measure(quick))
    for name in JAR_SETS:
        jars.ensure(name)
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as place:
        folder = Path(place)
        with EmbeddedKafka(folder / "kafka", heap="1g") as kafka:
            progress.phase("fill the topics")
            topic = fill_topic(kafka, "bench", QUICK_ROWS if quick else ROWS, progress)
            small = fill_topic(kafka, "small", cold.ROWS, progress)
            progress.phase("produce")
            produced = producing.measure(kafka.bootstrap_servers, quick=quick)
            progress.phase("cold")
            started = cold.measure(small, folder, times=1 if quick else COLD_RUNS)
            with bench_session(folder) as spark:
                progress.phase("warm up")
                # The connector's code is compiled while it runs: a short warm-up would measure the compiler.
                _rounds(spark, topic, folder, 1, progress)
                progress.phase("measure")
                runs = _rounds(spark, topic, folder, QUICK_ROUNDS if quick else ROUNDS, progress)
            progress.phase("memory")
            peaks = memory.measure(topic, times=1 if quick else 3)
    return {
        "machine": _machine(),
        "versions": _versions(),
        "workload": {"rows": topic.rows, "partitions": PARTITIONS, "row_bytes": 170, "compression": "lz4"},
        "decode": decoded,
        "produce": produced,
        "runs": [run.to_json() for run in runs],
        "medians_krows_per_second": medians(runs),
        "ratios": ratios(runs),
        "memory": peaks,
        "cold": started,
        "caveats": list(CAVEATS),
    }


def _rounds(spark: Any, topic: BenchTopic, folder: Path, rounds: int, progress: Progress) -> list[Run]:
    """Everybody in turn, so that a machine whose speed drifts drifts for all."""
    order = contenders(spark, topic)
    progress.total(rounds * len(order) * topic.rows)
    runs = []
    for number in range(1, rounds + 1):
        for contender in order:
            run = contender.measure(folder, number, topic.rows)
            progress.advance(run.rows)
            runs.append(run)
    return runs


def _machine() -> dict[str, Any]:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / (1 << 30), 1),
        "platform": platform.platform(terse=True),
        "load_1m": round(os.getloadavg()[0], 1),
        "spark_master": MASTER,
    }


def _versions() -> dict[str, str]:
    packages = ("pyspark", "deltalake", "delta-spark", "pyarrow", "numba", "kafka-segment-etl")
    versions = {name: metadata.version(name) for name in packages}
    connector = ", ".join(f"{jar.module} {jar.version}" for jar in jars.locked_sets()[CONNECTOR])
    return {"python": platform.python_version(), "kafka": jars.KAFKA, "connector": connector, **versions}
