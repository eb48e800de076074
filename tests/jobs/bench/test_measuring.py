"""The benchmark gives all of its figures, from runs that landed what they should. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kseg.jobs.bench import floor
from kseg.jobs.bench.figures import DEFAULT, FILES, OURS, TUNED, MeasuredRun, medians, ratios
from kseg.jobs.bench.matrix import WORKLOADS
from long_commands import printed
from skips import full_scale_only


def test_medians_and_ratios_are_those_of_the_runs() -> None:
    seconds = {
        (OURS, "delta"): [1.0, 9.0, 2.0],
        (FILES, "delta"): [0.5, 1.0, 4.0],
        (TUNED, "delta"): [8.0, 6.0, 7.0],
        (DEFAULT, "delta"): [4.0, 4.0, 4.0],
    }
    runs = [
        MeasuredRun(way, sink, number, 1000, taken)
        for (way, sink), all_of in seconds.items()
        for number, taken in enumerate(all_of, 1)
    ]
    runs += [MeasuredRun(way, "noop", 1, 1000, 1.0) for way in (OURS, FILES, TUNED, DEFAULT)]
    assert medians(runs)["kafka_to_delta"] == {OURS: 0.5, FILES: 1.0, TUNED: 0.1, DEFAULT: 0.2}
    assert ratios(runs)["kafka_to_delta_vs_spark_tuned"] == 3.5
    assert ratios(runs)["files_to_delta_vs_kafka"] == 2.0
    assert ratios(runs)["kafka_to_noop_vs_spark_default"] == 1.0


OF_A_LARGE_PARENT = """
import subprocess, sys
taken = b"x" * (400 << 20)
subprocess.run([sys.executable, "-c", "from kseg.jobs.bench.memory import peak; print(peak())"], check=True)
"""


def test_a_peak_is_the_processs_own() -> None:
    """A driver's was at least that of the benchmark which had started it."""
    told = subprocess.run([sys.executable, "-c", OF_A_LARGE_PARENT], check=True, capture_output=True, text=True)
    assert int(told.stdout) < 300 << 20


# Sections that need Spark, with as little as there is to measure; the others have tests of their own. One process
# measures them all, as `kseg bench` does: its sessions have the connector's jars.
MEASURE = """
import json
from dataclasses import replace
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import floor, matrix
from kseg.jobs.bench.efforts import QUICK
from kseg.jobs.bench.measuring import measure

effort = replace(QUICK, rows=4000, rounds=1, warm_up=0, decode_times=1, decode_batches=1, produce_rows=10_000)
small = matrix.MatrixEffort(rows=5000, rounds=1, warm_up=0)
effort = replace(effort, matrix=small, floor=floor.FloorEffort(rows=8000, rounds=1))
print(json.dumps(measure(effort, SECTIONS, NULL_PROGRESS)))
"""


SECTIONS = ("decode", "produce", "spark")


@pytest.fixture(scope="module")
def least(scale: Callable[[Any, Any], Any]) -> dict[str, Any]:
    sections = scale(SECTIONS, (*SECTIONS, "memory", "matrix", "typed", "floor"))
    program = f"SECTIONS = {sections!r}\n{MEASURE}"
    document: dict[str, Any] = json.loads(printed(program))
    return document


@pytest.mark.slow
def test_a_benchmark_lands_every_row_in_every_run(least: dict[str, Any]) -> None:
    assert {run["rows"] for run in least["runs"]} == {least["workload"]["rows"]} == {4000}
    ways = {(run["way"], run["sink"]) for run in least["runs"]}
    assert ways == {(way, sink) for way in (OURS, FILES, TUNED, DEFAULT) for sink in ("delta", "noop")}


@pytest.mark.slow
def test_a_benchmark_tells_ratios_and_codecs(least: dict[str, Any]) -> None:
    assert {"kafka_to_delta_vs_spark_tuned", "kafka_to_noop_vs_spark_tuned"} <= least["ratios"].keys()
    assert {"files_to_delta_vs_kafka", "files_to_noop_vs_kafka"} <= least["ratios"].keys()
    assert [entry["codec"] for entry in least["decode"]] == ["none", "gzip", "snappy", "lz4", "zstd", "none"]
    assert all(entry["million_rows_per_second"] > 0 for entry in least["decode"])
    assert {"records", "columns", "confluent_kafka"} <= least["produce"]["krows_per_second"].keys()
    assert "cold" not in least
    assert "files" not in least


@pytest.mark.slow
@full_scale_only
def test_memory_is_measured_of_three_ways(least: dict[str, Any]) -> None:
    assert len(least["memory"]) == 3


@pytest.mark.slow
@full_scale_only
def test_every_workload_lands_all_rows_on_both_sides(least: dict[str, Any]) -> None:
    """A side that lands another number, as readers of aborted records do, fails the measurement."""
    found = least["matrix"]
    assert sorted(entry["workload"] for entry in found) == sorted(workload.name for workload in WORKLOADS)
    for entry in found:
        assert entry["rows"] == 5000
        for figures in (entry["krows_per_second"], entry["cpu_seconds_a_million_rows"]):
            assert figures.keys() == {"ours", "spark_tuned"}
            assert all(figure > 0 for figure in figures.values())


@pytest.mark.slow
@full_scale_only
def test_a_large_topics_bare_parts_stand_beside_whole_runs(least: dict[str, Any]) -> None:
    found = least["floor"]
    assert found["rows"] == 8000
    processor = found["cpu_seconds_a_million_rows"]
    assert processor.keys() == {OURS, TUNED, floor.BARE}
    assert 0 < found["read_cpu_seconds_a_million_rows"] < processor[floor.BARE] < processor[OURS]
    assert found["ratios"].keys() == {"vs_spark_tuned", "cpu_of_bare_parts"}
