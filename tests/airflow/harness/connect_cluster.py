"""A Spark Connect server."""

from __future__ import annotations

from pathlib import Path

from cluster_process import ClusterProcess
from kseg_process import Kseg


class ConnectCluster(ClusterProcess):
    """A server whose workers import what the folders in ``python_path`` have, and kseg."""

    def __init__(self, kseg: Kseg, *python_path: Path) -> None:
        imports = "from connect_server import ConnectServer"
        super().__init__(kseg, imports, "ConnectServer()", '{"url": cluster.url}', *python_path)
        self.url = str(self.told["url"])
