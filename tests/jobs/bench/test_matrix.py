"""The matrix of workloads counts its own processes alone, and its values are what statements read. It is run in
`test_measuring.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random

import psutil

from kseg.jobs.bench.matrix import TOPICS, cpu_seconds

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
