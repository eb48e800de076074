"""What Airflow's operators rest on when a Livy is stopped, or breaks down and is started again."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from livy import Livy
from skips import full_scale_only

pytestmark = [
    pytest.mark.spark,
    full_scale_only,
]

# Spark is started, but not asked for anything: a driver that goes on without its JVM, and without Livy.
APPLICATION = """
import os, sys, time
from pathlib import Path
while True:
    Path(sys.argv[1]).write_text(f"{os.getpid()} {os.getppid()}")
    time.sleep(0.1)
"""


def post(livy: Livy, **batch: Any) -> int:
    body = json.dumps(batch).encode()
    request = urllib.request.Request(
        f"{livy.url}/batches", data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["id"])


def wait_for(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 180
    while not look():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.2)


def test_a_livy_that_broke_down_leaves_its_drivers_and_counts_batches_from_0_again(tmp_path: Path) -> None:
    application, sign = tmp_path / "application.py", tmp_path / "sign"
    application.write_text(APPLICATION)
    batch = {"file": str(application), "args": [str(sign)]}
    livy = Livy(directory=tmp_path / "livy").start()
    try:
        assert post(livy, name="first", **batch) == 0
        wait_for(sign.exists, "a driver runs")
        driver, jvm = map(psutil.Process, map(int, sign.read_text().split()))
        livy.kill()
        sign.unlink()
        wait_for(sign.exists, "the driver goes on")
        livy.start()
        assert livy.batches() == []
        assert post(livy, name="second", **batch) == 0
        assert driver.is_running()
    finally:
        livy.stop()
    wait_for(lambda: not (driver.is_running() or jvm.is_running()), "nothing outlives it that it had started")
