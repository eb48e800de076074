"""Runs all measurements in turn, and collects their results."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Collection, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench import (
    cold,
    day,
    decoding,
    extremes,
    far,
    floor,
    lake,
    log_files,
    matrix,
    memory,
    payloads,
    peers,
    producing,
    scaling,
    store,
    typed,
)
from kseg.jobs.bench.contenders import Contender, contenders
from kseg.jobs.bench.efforts import Effort
from kseg.jobs.bench.figures import MeasuredRun, medians, ratios
from kseg.jobs.bench.session import CONNECTOR, JAR_SETS, MASTER, bench_session
from kseg.jobs.bench.workload import PARTITIONS, BenchTopic, fill_topic
from kseg.jobs.broker import jars
from kseg.jobs.broker.process import EmbeddedKafka

CAVEATS = (
    "Spark's connector runs with jars of mixed versions, since its own set cannot be resolved: see versions.connector",
    "broker, driver and tasks share the machine's cores; trust ratios, not absolute figures",
)

IN_SPARK: Final = frozenset({"spark", "cold", "peers", "typed", "lake", "matrix", "floor", "far", "store", "day"})
"""Sections that need the jars of Spark's connector, or its sessions."""


def measure(effort: Effort, sections: Collection[str], progress: Progress) -> dict[str, Any]:
    """Measure the requested sections in turn, on one broker.

    Raises:
        WrongCount: a run returned another number of rows than the topic has.
        JarsUnavailable, StartFailed: jars cannot be downloaded, or the broker does not start.
    """
    document: dict[str, Any] = {"machine": _machine(), "versions": _versions()}
    if "decode" in sections:
        progress.phase("decode")
        document["decode"] = list(decoding.measure(effort.decode_times, effort.decode_batches))
    if "payload" in sections:
        progress.phase("payload")
        document["payload"] = list(payloads.measure(effort.decode_times))
    if "extremes" in sections:
        progress.phase("extremes")
        document["extremes"] = extremes.measure(scale=effort.extremes)
    if set(sections) <= {"decode", "payload", "extremes"}:
        return document
    for name in JAR_SETS if IN_SPARK & set(sections) else (jars.KAFKA,):
        jars.ensure(name)
    with tempfile.TemporaryDirectory(prefix="kseg-bench-") as place:
        folder = Path(place)
        away = far.FarListeners.make(folder / "certificates") if "far" in sections else None
        more = () if away is None else away.listeners
        with EmbeddedKafka(folder / "kafka", heap="2g", listeners=more) as kafka:
            document |= _on_a_broker(kafka, away, folder, effort, sections, progress)
    return document | {"caveats": list(CAVEATS)}


def _on_a_broker(
    kafka: EmbeddedKafka,
    away: far.FarListeners | None,
    folder: Path,
    effort: Effort,
    sections: Collection[str],
    progress: Progress,
) -> dict[str, Any]:
    """away: the broker's additional listeners, if the section `far` is measured."""
    document: dict[str, Any] = {}
    if "produce" in sections:
        progress.phase("produce")
        document["produce"] = producing.measure(
            kafka.bootstrap_servers, rows=effort.produce_rows, rounds=effort.rounds, warm_up=effort.warm_up
        )
    if "cold" in sections:
        progress.phase("cold")
        small = [fill_topic(kafka, f"cold-{rows}", rows, progress) for rows in effort.cold_rows]
        progress.phase("measure cold processes")
        document["cold"] = cold.measure(small, folder, times=effort.cold_times)
    if "peers" in sections:
        progress.phase("fill the topic of peers")
        form = peers.json_format()
        topic = fill_topic(kafka, "peers", effort.peers_rows, progress, form.records)
        progress.phase("measure peers")
        document["peers"] = peers.measure(topic, folder, times=effort.cold_times)
    if {"spark", "memory", "far"} & set(sections):
        progress.phase("fill the topic")
        topic = fill_topic(kafka, "bench", effort.rows, progress)
        document["workload"] = {
            "rows": topic.rows,
            "partitions": PARTITIONS,
            "row_bytes": 170,
            "compression": "lz4",
        }
        if "spark" in sections:
            document |= _in_spark(topic, kafka.log_dirs[0], folder, effort, progress)
        if "memory" in sections:
            progress.phase("memory")
            document["memory"] = memory.measure(topic, times=effort.memory_times)
        if away is not None:
            with bench_session(folder) as spark:
                rounds = partial(_warm_rounds, folder, effort, progress)
                document["far"] = far.measure(spark, kafka, away, topic, rounds)
    if "typed" in sections:
        document["typed"] = _decoded(typed, kafka, effort.rows, folder, effort, progress)
    if "lake" in sections:
        document["lake"] = _decoded(lake, kafka, effort.lake_rows, folder, effort, progress)
    if "store" in sections:
        document["store"] = _store(kafka, folder, effort, progress)
    if "day" in sections:
        progress.phase("day")
        with bench_session(folder):
            document["day"] = day.measure(kafka.bootstrap_servers, folder / "day", effort.day, progress)
    if "matrix" in sections:
        with bench_session(folder) as spark:
            document["matrix"] = matrix.measure(
                spark, kafka.bootstrap_servers, tuple(kafka.pids.values()), folder, effort.matrix, progress
            )
    if "floor" in sections:
        progress.phase("fill a large topic")
        large = fill_topic(kafka, "large", effort.floor.rows, progress)
        progress.phase("measure the large topic")
        with bench_session(folder) as spark:
            document["floor"] = floor.measure(spark, large, tuple(kafka.pids.values()), folder, effort.floor)
    if "scaling" in sections:
        progress.phase("scaling")
        landed = fill_topic(kafka, "workers", effort.scaling.rows, progress)
        document["scaling"] = scaling.measure(kafka.bootstrap_servers, landed, folder, effort.scaling, progress)
    if "files" in sections:
        document["files"] = log_files.measure(
            kafka.bootstrap_servers, kafka.log_dirs[0], folder, effort.files, progress
        )
    return document


def _in_spark(topic: BenchTopic, log_dir: Path, folder: Path, effort: Effort, progress: Progress) -> dict[str, Any]:
    with bench_session(folder) as spark:
        order = contenders(spark, topic, log_dir)
        # The JVM compiles the connector's code while it runs: a short warm-up would measure the compiler.
        progress.phase("warm up")
        _rounds(order, topic, folder, effort.warm_up, progress)
        progress.phase("measure")
        runs = _rounds(order, topic, folder, effort.rounds, progress)
    return {
        "runs": [run.to_json() for run in runs],
        "medians_krows_per_second": medians(runs),
        "ratios": ratios(runs),
    }


def _decoded(
    section: ModuleType, kafka: EmbeddedKafka, rows: int, folder: Path, effort: Effort, progress: Progress
) -> dict[str, Any]:
    """A section that has a topic for each format."""
    name = section.__name__.rpartition(".")[2]
    progress.phase(f"fill the topics of {name}")
    topics = [
        (form, fill_topic(kafka, f"{name}-{form.name}", rows, progress, form.records)) for form in section.formats()
    ]
    with bench_session(folder) as spark:
        found: dict[str, Any] = section.measure(spark, topics, partial(_warm_rounds, folder, effort, progress))
    return found


def _store(kafka: EmbeddedKafka, folder: Path, effort: Effort, progress: Progress) -> dict[str, Any]:
    progress.phase("fill the topics of store")
    json_rows = next(form for form in lake.formats() if form.name == "json").records
    raw = fill_topic(kafka, "store-raw", effort.rows, progress)
    wide = fill_topic(kafka, "store-wide", effort.lake_rows, progress, json_rows)
    progress.phase("store")
    place = folder / "store"
    place.mkdir()
    return store.measure(store.Plan(raw, wide, str(place), effort.rounds, effort.warm_up))


def _warm_rounds(
    folder: Path, effort: Effort, progress: Progress, order: Sequence[Contender], topic: BenchTopic
) -> list[MeasuredRun]:
    progress.phase(f"warm up: {topic.name}")
    _rounds(order, topic, folder, effort.warm_up, progress)
    progress.phase(f"measure: {topic.name}")
    return _rounds(order, topic, folder, effort.rounds, progress)


def _rounds(
    order: Sequence[Contender], topic: BenchTopic, folder: Path, rounds: int, progress: Progress
) -> list[MeasuredRun]:
    """Run all contenders in turn, so that a change of the machine's speed affects all of them."""
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
