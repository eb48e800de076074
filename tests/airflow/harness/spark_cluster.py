"""A Spark standalone cluster: `master` and `worker-1`."""

from __future__ import annotations

from pathlib import Path

import requests

from cluster_process import ClusterProcess
from kseg_process import Kseg


class SparkCluster(ClusterProcess):
    """A master and a worker, whose executors import what the folders in ``python_path`` have, and kseg."""

    def __init__(self, kseg: Kseg, *python_path: Path) -> None:
        super().__init__(
            kseg,
            "from kseg.jobs.bench.standalone import StandaloneSpark",
            'StandaloneSpark(workers=1, cores=1, memory="1g")',
            '{"url": cluster.url, "ui": cluster.ui}',
            *python_path,
        )
        self.url, self.ui = str(self.told["url"]), str(self.told["ui"])

    def applications(self, state: str) -> list[str]:
        """The ids of applications that are ``active`` or ``completed``."""
        told = requests.get(f"{self.ui}/json/", timeout=30).json()
        return [app["id"] for app in told[f"{state}apps"]]
