"""A Spark that a job starts prints nothing of its own beside the run's output."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

START = """
from kseg.etl.spark.session import ALWAYS, local_context
context = local_context("quiet", "local[1]", ALWAYS, [])
assert context.parallelize([1, 2], 1).sum() == 3
context.stop()
"""


def test_a_session_starts_without_a_line_of_sparks() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    assert done.stderr == ""
