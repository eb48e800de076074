"""The clock of one process: moved in it, for Python, delta-rs and what else asks libc; not for others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clocks

PROGRAM = """
import datetime, time, clocks
before = time.monotonic()
assert clocks.move(int({seconds}))
print(time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.time_ns() / 1e9, time.monotonic() - before)
"""


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_process_s_clock_is_moved(tmp_path: Path, seconds: int) -> None:
    environment = clocks.environment(tmp_path)
    if not environment:
        pytest.skip("there is no C compiler")
    program = PROGRAM.format(seconds=seconds)
    path = str(Path(clocks.__file__).parent)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    *told, passed = (float(word) for word in ran.stdout.split())
    for at in told:
        assert abs(at - time.time() - seconds) < 600
    assert 0 <= passed < 600


def test_without_the_library_nothing_is_moved() -> None:
    before = time.time()
    if "clock.so" not in os.environ.get("LD_PRELOAD", ""):
        assert not clocks.move(3600)
    assert time.time() - before < 600
