"""The matrix of workloads runs on topics that librdkafka wrote, and counts its own processes alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random

import psutil
import pytest

from kseg.jobs.bench.matrix import TOPICS, WORKLOADS, cpu_seconds

# In a process of its own, as `kseg bench` is: it has a Spark session with the connector's jars.
MEASURE = """
import json
from dataclasses import replace
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench.efforts import QUICK
from kseg.jobs.bench.matrix import Effort
from kseg.jobs.bench.measuring import measure

effort = replace(QUICK, matrix=Effort(rows=5000, rounds=1, warm_up=0))
print(json.dumps(measure(effort, ("matrix",), NULL_PROGRESS)))
"""


@pytest.mark.slow
def test_every_workload_lands_all_rows_on_both_sides() -> None:
    """A side that lands another number, as readers of aborted records do, fails the measurement."""
    done = subprocess.run([sys.executable, "-c", MEASURE], check=True, capture_output=True, text=True, timeout=560)
    found = json.loads(done.stdout)["matrix"]
    assert sorted(entry["workload"] for entry in found) == sorted(workload.name for workload in WORKLOADS)
    for entry in found:
        assert entry["rows"] == 5000
        for figures in (entry["krows_per_second"], entry["cpu_seconds_a_million_rows"]):
            assert figures.keys() == {"ours", "spark_tuned"}
            assert all(figure > 0 for figure in figures.values())


BUSY = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nimport sys\nsys.stdin.read()"


def test_processor_time_is_that_of_started_processes_but_for_those_left_out() -> None:
    before = cpu_seconds(())
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(()) - before >= 0.4
        spent = psutil.Process(child.pid).cpu_times()
        assert cpu_seconds(()) - cpu_seconds({child.pid}) >= 0.4, spent
        assert child.stdin is not None
        child.stdin.close()
    assert cpu_seconds({os.getpid()}) < cpu_seconds(())


def test_values_are_json_with_the_fields_that_statements_read() -> None:
    """A value that is none would be cheap to parse: all fields null."""
    fields = {"id", "customer", "amount", "currency", "quantity", "paid", "status", "token"}
    for number in range(100):
        assert json.loads(TOPICS["json-lz4"].value(Random(number))).keys() == fields
