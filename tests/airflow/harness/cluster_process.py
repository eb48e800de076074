"""A cluster that runs in kseg's environment for Airflow's tests: a process that prints JSON and ends with its stdin."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from kseg_process import ROOT, Kseg

HARNESS = ROOT / "tests" / "harness"
"""Clusters that only tests use are started from there."""

_RUN = """
import json, sys
with {server} as cluster:
    print(json.dumps({told}), flush=True)
    for line in sys.stdin:
        cluster.kill(line.strip())
        print(json.dumps(cluster.pids), flush=True)
"""


class ClusterProcess:
    """server, told: Python's text for the cluster, and for what of it (`cluster`) is told at its start; imports: what
    both need. python_path: folders, beside kseg's own, that the cluster's workers import from."""

    def __init__(self, kseg: Kseg, imports: str, server: str, told: str, *python_path: Path) -> None:
        self._process = subprocess.Popen(
            [Path(kseg).parent / "python", "-c", imports + _RUN.format(server=server, told=told)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [HARNESS, *python_path]))},
            cwd=python_path[0] if python_path else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.told: dict[str, Any] = self._answer()

    def kill(self, name: str) -> None:
        """End one of its processes as a power cut would."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        assert name not in self._answer()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())
