"""A Livy in front of a Spark standalone cluster: `livy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests

from cluster_process import ClusterProcess
from kseg_process import Kseg


class LivyServer(ClusterProcess):
    """Drivers import what the folders in ``python_path`` have, and kseg.

    master: where batches run. kept: the folder of its logs.
    """

    def __init__(self, kseg: Kseg, master: str, kept: Path, *python_path: Path) -> None:
        super().__init__(
            kseg,
            "from pathlib import Path\nfrom livy import Livy",
            f"Livy({master!r}, Path({str(kept)!r}))",
            '{"url": cluster.url, "pid": cluster.pids["livy"]}',
            *python_path,
        )
        self.url, self.pid = str(self.told["url"]), int(self.told["pid"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def batches(self) -> list[dict[str, Any]]:
        """All that Livy knows: ``id``, ``name``, ``state`` and more."""
        told = requests.get(f"{self.url}/batches", params={"size": 1000}, timeout=60).json()
        return list(told["sessions"])
