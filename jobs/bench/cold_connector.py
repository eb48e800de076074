"""Lands a topic in a Delta table with Spark's tuned connector, in a separate process.

python -m kseg.jobs.bench.cold_connector SERVERS TOPIC FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from kseg.jobs.bench.contenders import TUNING, connector_to_delta
from kseg.jobs.bench.session import bench_session
from kseg.jobs.bench.workload import PARTITIONS, BenchTopic


def land(servers: str, topic: str, folder: Path) -> None:
    """Land all records in a new table `folder/table`."""
    folder.mkdir()
    with bench_session(folder) as spark:
        connector_to_delta(spark, BenchTopic(servers, topic, 0, PARTITIONS), TUNING, folder)


if __name__ == "__main__":
    land(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
