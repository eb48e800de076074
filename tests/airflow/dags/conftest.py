"""The example DAGs as they are, in the running Airflow, and job files that become DAGs beside them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from airflow_process import wait_for

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow

DAGS = Path(__file__).parents[3] / "airflow" / "dags"

EXAMPLE_DAGS = (
    "kseg_backfill",
    "kseg_downstream",
    "kseg_drift_check",
    "kseg_interval_ingest",
    "kseg_recover_segments",
    "kseg_scheduled_ingest",
    "kseg_table_maintenance",
)

_numbers = itertools.count(1)
T = TypeVar("T")


class JobFiles:
    """The folder of job files that from_job_files.py reads: each one that is written here becomes a DAG.

    Unless a test asks for Spark, a driver runs its tasks itself: Airflow sees no difference, and no driver has to wait
    for Spark's start.
    """

    def __init__(self, airflow: RunningAirflow, folder: Path, lake: Path) -> None:
        self.airflow = airflow
        self.folder = folder
        self.lake = lake
        self._asked = 0.0

    def add(self, topic: str, *, airflow: dict[str, Any] | None = None, engine: str = "local", **more: Any) -> str:
        """Write a job file for a topic, and wait until its DAG is known.

        airflow: its section; engine: where its runs' tasks work; more: further top-level keys. Returns the job's name,
        which is its DAG's id and its group.
        """
        name = f"job-{os.getpid()}-{next(_numbers)}"
        self.write(name, json.dumps(self.job(name, topic, engine) | more | {"airflow": airflow or {}}, indent=2))
        self.airflow.wait_for_dag(name, ask=self.read_again_if_unheard)
        return name

    def job(self, name: str, topic: str, engine: str) -> dict[str, Any]:
        """A small job's keys; its table and its ledger are in `lake`."""
        return {
            "version": 1,
            "name": name,
            "kafka": {"bootstrap.servers": "${KSEG_BOOTSTRAP_SERVERS}"},
            "source": {"topics": [topic]},
            "sink": {"path": str(self.table(name))},
            "group": name,
            "ledger": str(self.lake / "ledger"),
            "run": {"lease": "10s", "engine": engine},
            "spark": {"master": "local[1]", "conf": {"spark.ui.enabled": False}},
        }

    def write(self, name: str, text: str) -> Path:
        """Put a job file into the folder, whatever is in it, and have the folder read again. (JSON is YAML, too.)"""
        path = self.path(name)
        partial = path.with_suffix(".part")
        partial.write_text(text)
        partial.replace(path)
        self.read_again()
        return path

    def remove(self, name: str) -> None:
        self.path(name).unlink()
        self.read_again()

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def table(self, name: str) -> Path:
        return self.lake / name

    def until(self, found: Callable[[], T], what: str) -> T:
        """Wait for what Airflow makes of the folder as it is."""

        def look() -> T:
            self.read_again_if_unheard()
            return found()

        return wait_for(look, what)

    def read_again_if_unheard(self) -> None:
        """A DAG file that changes while Airflow reads it counts as read: who waits asks again every few seconds."""
        if time.monotonic() - self._asked > 5:
            self.read_again()

    def read_again(self) -> None:
        """Have Airflow read the two DAG files that read this folder: a changed job file is none of its files."""
        self._asked = time.monotonic()
        for file in ("from_job_files.py", "job_file_faults.py"):
            self.airflow.parse_again(self.airflow.dags_folder / file)


@pytest.fixture(scope="session")
def _examples(_airflow: RunningAirflow) -> RunningAirflow:
    for path in sorted(DAGS.iterdir()):
        if path.suffix in {".py", ".yaml"}:
            shutil.copy(path, _airflow.dags_folder)
    for dag in EXAMPLE_DAGS:
        _airflow.wait_for_dag(dag)
    return _airflow


@pytest.fixture
def examples(airflow: RunningAirflow, _examples: RunningAirflow) -> RunningAirflow:
    """The running Airflow with all example DAGs in its folder."""
    return airflow


@pytest.fixture
def job_files(examples: RunningAirflow, tmp_path: Path) -> Iterator[JobFiles]:
    """Job files that become DAGs; they are removed after the test."""
    folder = Path(examples.environment["KSEG_JOBS"])
    files = JobFiles(examples, folder, tmp_path)
    yield files
    for path in folder.glob("*.yaml"):
        path.unlink()
    files.read_again()
    files.until(lambda: not examples.import_errors(), "no import errors")
