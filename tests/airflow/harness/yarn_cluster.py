"""A YARN of one node: `resource-manager` and `node-manager`."""

from __future__ import annotations

from typing import Any

import requests

from cluster_process import ClusterProcess
from kseg_process import Kseg

#: For a driver and one executor that find room twice: an application that ends, and the next one.
_SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
}


class YarnCluster(ClusterProcess):
    """A resource manager and a node manager. Containers have kseg's own Python, and none of the job's modules.

    url: the resource manager's web address. conf_dir: for HADOOP_CONF_DIR. conf: what spark-submit is told.
    """

    def __init__(self, kseg: Kseg) -> None:
        super().__init__(
            kseg,
            "from yarn import Yarn",
            "Yarn()",
            '{"url": cluster.url, "conf_dir": str(cluster.conf_dir), "conf": cluster.spark_conf}',
        )
        self.url, self.conf_dir = str(self.told["url"]), str(self.told["conf_dir"])
        self.conf: dict[str, str] = self.told["conf"] | _SMALL

    def applications(self) -> list[dict[str, Any]]:
        """All that were submitted, the oldest first: ``id``, ``state``, ``finalStatus``, ``diagnostics`` and more."""
        told = requests.get(f"{self.url}/ws/v1/cluster/apps", timeout=30).json()["apps"] or {}
        return sorted(told.get("app") or [], key=lambda app: int(app["startedTime"]))

    def application(self, application_id: str) -> dict[str, Any]:
        told: dict[str, Any] = requests.get(f"{self.url}/ws/v1/cluster/apps/{application_id}", timeout=30).json()
        return dict(told["app"])

    def kill_application(self, application_id: str) -> None:
        """What an administrator does."""
        url = f"{self.url}/ws/v1/cluster/apps/{application_id}/state"
        requests.put(url, json={"state": "KILLED"}, timeout=30).raise_for_status()
