"""What the tests in Airflow's environment share: a running Airflow, a real Kafka, and `kseg` as a program.

They run in an environment that has Airflow and nothing of ours but `kseg_airflow` (``make test-airflow``); where there
is no Airflow, they are left out, and one line says so.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leaks
import skips

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

ROOT = Path(__file__).parents[2]

try:
    #: The installed Airflow's first number; None where there is none.
    RELEASE = int(importlib.metadata.version("apache-airflow").partition(".")[0])
except importlib.metadata.PackageNotFoundError:
    RELEASE = None

if RELEASE is not None:
    # Modules in kseg_airflow/ beside this file are imported as `kseg_airflow.test_…`: unless the package itself is
    # there first, pytest puts an empty one of that name in its place.
    import kseg_airflow  # noqa: F401

#: What needs Airflow 3: its SDK, REST API v2, backfills that the scheduler makes, the example DAGs.
NEEDS_3 = ["dags/*", "kseg_airflow/test_assets.py", "test_first_steps.py", "test_harness.py", "test_layout.py"]
NEEDS_3 += [
    "kseg_airflow/test_connections.py",
    "kseg_airflow/test_conventions.py",
    "kseg_airflow/test_events_again.py",
    "kseg_airflow/test_job_dags.py",
    "kseg_airflow/test_racing.py",
    "test_faults.py",
    "test_screenshots.py",
    "test_sqlite_settings.py",
]

#: What tests ask for that have not all been run with the check of what they leave open.
UNCHECKED = {"airflow", "kafka", "steps", "terminal"}

#: Files that take a minute or more, by how long they take.
LONGEST_FIRST = ["test_first_steps.py", "test_running.py", "test_intervals.py", "test_connections.py"]
LONGEST_FIRST += ["test_examples.py", "test_deaths.py", "test_racing.py", "test_provider.py", "test_screenshots.py"]

collect_ignore_glob = {None: ["*"], 2: NEEDS_3}.get(RELEASE, ["test_on_airflow_2.py"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-images", action="store_true", help="write the docs' screenshots to docs/images")


def pytest_configure(config: pytest.Config) -> None:
    """Let `harness/skips.py` and `harness/leaks.py` watch the run."""
    skips.register(config)
    leaks.register(config, lambda item: bool(UNCHECKED & set(getattr(item, "fixturenames", ()))))


def pytest_report_header() -> str | None:
    """Say why nothing of this folder runs, or only a part."""
    return {
        None: "tests/airflow: left out, this environment has no Airflow (make test-airflow)",
        2: f"tests/airflow: on Airflow 2; what needs Airflow 3 is left out: {', '.join(NEEDS_3)}",
    }.get(RELEASE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes each takes the next file when it has done one: the longest come first.

    Whoever comes first starts Airflow and Kafka, on a machine that has other things to do: waits have bounds of their
    own, and say what they waited for.
    """
    if RELEASE is None:  # the items are those of kseg's environment
        return
    items.sort(key=lambda item: LONGEST_FIRST.index(name) if (name := item.path.name) in LONGEST_FIRST else math.inf)
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def kseg() -> Iterator[Kseg]:
    """``kseg`` of the main environment (`make setup`), or what KSEG_BINARY names."""
    from kseg_process import Kseg, kseg_binary

    binary = kseg_binary()
    assert binary.exists(), f"{binary} is missing: make setup"
    program = Kseg(binary)
    yield program
    program.close()


@pytest.fixture(scope="session")
def _kafka(kseg: Kseg) -> Iterator[KafkaProcess]:
    from kseg_process import KafkaProcess

    broker = KafkaProcess(kseg)
    yield broker
    broker.stop()


@pytest.fixture
def kafka(_kafka: KafkaProcess) -> KafkaProcess:
    """A real single-node Kafka, shared by all tests; a topic of your own is enough."""
    return _kafka


@pytest.fixture(scope="session")
def _airflow(kseg: Kseg, _kafka: KafkaProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    if RELEASE == 2:
        from airflow_2 import RunningAirflow2 as Running
    else:
        from airflow_rest import RunningAirflow as Running

    home = tmp_path_factory.mktemp("airflow")
    for folder in ("jobs", "hold"):
        (home / folder).mkdir()
    environment = {
        "KSEG_BINARY": str(kseg),
        "KSEG_BOOTSTRAP_SERVERS": _kafka.bootstrap_servers,
        "KSEG_LAKE": str(home / "lake"),
        "KSEG_JOBS": str(home / "jobs"),
        "KSEG_TEST_HOLD": str(home / "hold"),
        "PYTHONPATH": _python_path(),
    }
    running = Running(home, environment)
    try:
        running.start_all()
        yield running
    finally:
        running.stop()


@pytest.fixture
def airflow(_airflow: RunningAirflow) -> Iterator[RunningAirflow]:
    """A running Airflow, shared by all tests; DAGs need ids that no other test's have.

    Parts that a test killed are started again after it.
    """
    yield _airflow
    _airflow.restart_missing()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty folder for tables, ledger and job files."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def _python_path() -> str:
    """Where Airflow finds this checkout's `kseg_airflow`, whatever is installed, and `kseg` the tests' own steps."""
    paths = [str(ROOT / "airflow"), str(ROOT / "tests" / "airflow" / "harness")]
    return os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
