"""Pictures of Airflow's page and of a run's report, as they stand in the docs; taken by a real browser.

``--write-images`` puts them into docs/images.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

from browser import Browser, chromium
from skips import FULL

if TYPE_CHECKING:
    from PIL.Image import Image

    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no chromium here (Debian, Ubuntu: apt-get install chromium)"
)

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 200_000

DAG = """
from airflow.sdk import DAG
from kseg_airflow.operators import KsegCommandOperator, KsegIngestOperator

with DAG("orders", schedule=None, max_active_runs=1, tags={"kseg"}):
    ingest = KsegIngestOperator(task_id="ingest", job_file=JOB, deferrable=True)
    ingest >> KsegCommandOperator(task_id="status", command="status", job_file=JOB)
"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as running:
        yield running


def _job(kafka: KafkaProcess, lake: Path) -> Path:
    """A job on a topic of two partitions with some thousand records."""
    topic = kafka.topic(partitions=2, prefix="orders")
    kafka.produce(topic, ({"value": f"order {n}" * 20, "partition": n % 2} for n in range(5000)))
    file = lake / "orders.yaml"
    values = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "source": {"topics": [topic]},
        "sink": {"path": "./orders"},
        "group": f"{topic}-etl",
        "ledger": "./_kseg_ledger",
        "spark": {"master": "local[2]"},
    }
    file.write_text(json.dumps(values))  # JSON is YAML
    return file


def _keep(picture: Image, file: Path, request: pytest.FixtureRequest) -> None:
    """A picture shows something, is small enough for the repository, and goes there if that was asked for."""
    colours = picture.getcolors(maxcolors=1 << 24)
    assert colours is not None
    assert len(colours) > 50
    assert max(count for count, _ in colours) < 0.95 * picture.width * picture.height
    assert file.stat().st_size < LARGEST
    if request.config.getoption("--write-images"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, IMAGES / file.name)


@pytest.fixture(scope="module")
def runs(_airflow: RunningAirflow, _kafka: KafkaProcess, request: pytest.FixtureRequest) -> list[str]:
    """Two runs of the DAG, the second of which finds nothing new; one, unless pictures are for the docs."""
    airflow, done = _airflow, []
    with tempfile.TemporaryDirectory(prefix="lake-") as lake:  # its name is in the report's picture
        job = _job(_kafka, Path(lake))
        airflow.add_dag(DAG.replace("JOB", repr(str(job))), "screenshots.py", expect=["orders"])
        for number in (1, 2) if FULL or request.config.getoption("--write-images") else (2,):
            done.append(airflow.trigger("orders", run_id=f"run-{number}"))
            airflow.wait_for_run("orders", done[-1], timeout=500)
    return done


def test_airflows_page_shows_green_runs(
    airflow: RunningAirflow, runs: list[str], browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = browser.open(f"{airflow.url}/dags/orders/runs/{runs[-1]}")
    page.wait_for_text("run-2", "ingest", "status", "Success", "Task Instances")
    _keep(page.picture(tmp_path / "airflow.png"), tmp_path / "airflow.png", request)


def test_a_runs_report_opens_without_a_network(
    airflow: RunningAirflow, runs: list[str], browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    report = airflow.links("orders", runs[0], "ingest")["Run report"]
    assert report is not None
    page = browser.open(report, height=1100)
    shown = page.wait_for_text("orders")
    assert "5000" in re.sub(r"[\s,]", "", shown)  # whatever stands between thousands
    _keep(page.picture(tmp_path / "report.png"), tmp_path / "report.png", request)
