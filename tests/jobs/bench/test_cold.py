"""Whole processes land what the topic has, and all of their processor time is counted. No figure is judged here."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import light_java
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import cold, peers
from kseg.jobs.bench.figures import TUNED
from kseg.jobs.bench.usage import usage_of
from kseg.jobs.bench.workload import fill_topic

#: Busy for 0.3 CPU seconds each: the process, a child, and a grandchild that outlives both and goes on alone.
FAMILY = """
import os, time
def work():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
if os.fork() == 0:
    if os.fork() == 0:
        first = os.getppid()
        while os.getppid() == first:
            time.sleep(0.01)
    work()
    os._exit(0)
work()
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands on orphans")
def test_the_time_of_all_processes_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "family.py").write_text(FAMILY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    usage = usage_of("family")
    assert usage.output == "done\n"
    assert usage.cpu_seconds >= 0.9
    assert usage.seconds > 0


def test_a_process_that_fails_fails_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fails.py").write_text("raise SystemExit('no such topic')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        usage_of("fails")
    assert caught.value.returncode == 1
    assert "no such topic" in caught.value.stderr


@pytest.mark.broker
@pytest.mark.slow
def test_cold_processes_land_all_rows(kafka: Any, tmp_path: Path, scale: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that lands another number of rows fails the measurement."""
    for name, value in light_java.ALL.items():
        monkeypatch.setenv(name, value)
    topic = fill_topic(kafka, f"cold-{uuid.uuid4()}", 40, NULL_PROGRESS)
    ways = scale((cold.LOCAL, cold.IDLE), cold.WAYS)
    [found] = cold.measure([topic], tmp_path, times=1, ways=ways)["cases"]
    assert (found["case"], found["rows"]) == ("40 records", 40)
    for figures in ("seconds", "cpu_seconds"):
        assert found[figures].keys() == set(ways)
        assert all(figure > 0 for figure in found[figures].values())
    assert {"start", "plan", "land"} <= found["phases"][cold.LOCAL].keys()
    assert "land" not in found["phases"][cold.IDLE]
    assert found["ratios"].keys() == scale(set(), {f"{way}_vs_{TUNED}" for way in (cold.LOCAL, cold.OURS_SPARK)})


@pytest.mark.broker
@pytest.mark.slow
def test_peers_land_the_same_typed_rows(
    kafka: Any, tmp_path: Path, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables with other rows or sums fail the measurement. dlt is measured where it is installed."""
    for name, value in light_java.ALL.items():
        monkeypatch.setenv(name, value)
    topic = fill_topic(kafka, f"peers-{uuid.uuid4()}", 40, NULL_PROGRESS, peers.json_format().records)
    ways = scale((peers.LOCAL, peers.SCRIPT), peers.WAYS)
    found = peers.measure(topic, tmp_path, times=1, ways=ways)
    measured = set(ways) - found.get("not_measured", {}).keys()
    assert {peers.LOCAL, peers.SCRIPT} <= measured
    assert found["seconds"].keys() == found["cpu_seconds"].keys() == measured
    assert found["ratios"].keys() == {f"{peers.LOCAL}_vs_{way}" for way in measured - {peers.LOCAL}}
    assert found["versions"].keys() >= {"confluent-kafka", "deltalake"}
