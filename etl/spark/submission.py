"""Whether spark-submit has started this process. Loads nothing else."""

from __future__ import annotations

import os


def is_submitted() -> bool:
    """Whether spark-submit has started this process: it has started a JVM, and gives its port."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
