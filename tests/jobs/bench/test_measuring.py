"""The benchmark gives all of its figures, from runs that landed what they should. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.bench.figures import DEFAULT, OURS, TUNED, Run, medians, ratios


def test_medians_and_ratios_are_those_of_the_runs() -> None:
    seconds = {(OURS, "delta"): [1.0, 9.0, 2.0], (TUNED, "delta"): [8.0, 6.0, 7.0], (DEFAULT, "delta"): [4.0, 4.0, 4.0]}
    runs = [
        Run(way, sink, number, 1000, taken)
        for (way, sink), all_of in seconds.items()
        for number, taken in enumerate(all_of, 1)
    ]
    runs += [Run(way, "noop", 1, 1000, 1.0) for way in (OURS, TUNED, DEFAULT)]
    assert medians(runs)["kafka_to_delta"] == {OURS: 0.5, TUNED: 0.1, DEFAULT: 0.2}
    assert ratios(runs)["kafka_to_delta_vs_spark_tuned"] == 3.5
    assert ratios(runs)["kafka_to_noop_vs_spark_default"] == 1.0


@pytest.fixture(scope="module")
def quick() -> dict[str, Any]:
    kseg = Path(sys.executable).with_name("kseg")
    told = subprocess.run(
        [str(kseg), "bench", "--quick", "--json"], check=True, capture_output=True, text=True, timeout=560
    )
    document: dict[str, Any] = json.loads(told.stdout)
    return document


@pytest.mark.slow
def test_a_quick_benchmark_lands_every_row_in_every_run(quick: dict[str, Any]) -> None:
    rows = quick["workload"]["rows"]
    assert {run["rows"] for run in quick["runs"]} == {rows}
    ways = {(run["way"], run["sink"]) for run in quick["runs"]}
    assert ways == {(way, sink) for way in (OURS, TUNED, DEFAULT) for sink in ("delta", "noop")}


@pytest.mark.slow
def test_a_quick_benchmark_tells_ratios_codecs_and_memory(quick: dict[str, Any]) -> None:
    assert {"kafka_to_delta_vs_spark_tuned", "kafka_to_noop_vs_spark_tuned"} <= quick["ratios"].keys()
    assert [entry["codec"] for entry in quick["decode"]] == ["none", "gzip", "snappy", "lz4", "zstd", "none"]
    assert all(entry["million_rows_per_second"] > 0 for entry in quick["decode"])
    assert len(quick["memory"]) == 3
    assert {"records", "columns", "confluent_kafka"} <= quick["produce"]["krows_per_second"].keys()
