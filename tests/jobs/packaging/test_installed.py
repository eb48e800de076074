"""The wheel alone, in an empty environment and a folder full of colliding names: from a topic to a verified table.

Both distributions are made by `python -m build`, as for a release. With full counts all packages and extras are then
installed by pip, on each Python that there is. Else the environment has links to the packages that the wheel requires,
and to no others: one that is imported and not required is missing there too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from linked_environment import link, required
from other_pythons import interpreter
from skips import FULL, IN_FULL

ROOT = Path(__file__).parents[3]
#: What half of all data repositories call their own modules, and what we, Airflow and clients of Kafka are called.
MODULES = (
    *("airflow", "client", "common", "config", "consumer", "decoder", "errors", "helpers", "ingest", "job", "kafka"),
    *("models", "pipeline", "protocol", "records", "registry", "schema", "schemas", "settings", "utils"),
)
PACKAGES = ("broker", "etl", "jobs", "ledger", "segment_reader", "source", "tables", "transform")
REFUSES = "raise SystemExit(f'the module {__name__} of a user was imported')\n"
ORDERS = "".join(f'{{"id": {number}, "amount": {number}.25, "note": "n{number}"}}\n' for number in range(50))
FROM_CHECKOUT = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
THIS = ".".join(map(str, sys.version_info[:2]))
OTHER_PYTHONS = ("3.12", "3.13")
PATIENCE = 1500
"""Seconds. On a quiet machine the longest command takes 40."""


class Machine:
    """An environment with the wheel, and the folder in which a user works."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin = environment / "bin"
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name not in FROM_CHECKOUT}
        self.env["PATH"] = f"{self.bin}{os.pathsep}{self.env['PATH']}"

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `python -m build` makes: of each distribution the source, and the wheel made of that."""
    folder = tmp_path_factory.mktemp("dist")
    # With full counts in an environment that `build` makes; else with the setuptools that is here.
    build = [sys.executable, "-m", "build", "--outdir", str(folder), *([] if FULL else ["--no-isolation"])]
    for project in (ROOT, ROOT / "airflow"):
        done = subprocess.run([*build, str(project)], capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module", params=[THIS, *OTHER_PYTHONS])
def machine(
    request: pytest.FixtureRequest, distributions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    if request.param in OTHER_PYTHONS and not FULL:
        pytest.skip(IN_FULL)
    python = sys.executable if request.param == THIS else interpreter(request.param)
    if python is None:
        pytest.skip(f"Python {request.param} is not installed here; with it: make test-full")
    folder = tmp_path_factory.mktemp("user")
    environment, work = folder / "environment", folder / "work"
    subprocess.run([python, "-m", "venv", str(environment)], check=True, timeout=PATIENCE)
    work.mkdir()
    made = Machine(environment, work)
    (wheel,) = distributions.glob("kafka_segment_etl-*.whl")
    install = ("python", "-m", "pip", "install", "--quiet", "--no-compile")
    if FULL:
        made.run(*install, "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[all]")
    else:
        made.run(*install, "--no-deps", str(wheel))
        (site,) = environment.glob("lib/python*/site-packages")
        (metadata,) = site.glob("kafka_segment_etl-*.dist-info")
        link(required(Distribution.at(metadata).requires or ()), site)
    for name in MODULES:
        (work / f"{name}.py").write_text(REFUSES)
    for name in PACKAGES:
        (work / name).mkdir()
        (work / name / "__init__.py").write_text(REFUSES)
    yield made
    shutil.rmtree(environment)  # in full 1.3 GB


def test_it_has_what_the_project_requires_and_nothing_of_the_checkout(machine: Machine) -> None:
    told = machine.run("python", "-c", "import kseg, kseg.jobs.cli; print(kseg.__version__, kseg.jobs.cli.__file__)")
    version, place = told.split()
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert Path(place).is_relative_to(machine.bin.parent)
    machine.run("python", "-m", "pip", "check")


def test_doctor_finds_it_fit(machine: Machine) -> None:
    found = json.loads(machine.run("kseg", "doctor", "--json"))
    assert found["healthy"]
    assert {finding["subject"]: finding["level"] for finding in found["findings"]}["Spark source"] == "ok"


@pytest.fixture
def bootstrap(machine: Machine) -> Iterator[str]:
    """The address of a Kafka that the wheel has started."""
    started = json.loads(machine.run("kseg", "broker", "start", "--dir", "kafka-data", "--json"))
    yield started["bootstrap_servers"]
    machine.run("kseg", "broker", "stop", "--dir", "kafka-data")


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(2 * PATIENCE)
def test_a_topic_becomes_a_verified_table_and_a_page(machine: Machine, bootstrap: str) -> None:
    topic, at = "orders", ("--bootstrap", bootstrap)
    (machine.folder / "orders.jsonl").write_text(ORDERS)
    machine.run("kseg", "produce", topic, "orders.jsonl", "--create", *at)
    machine.run("kseg", "init", "--topic", topic, "-o", "orders.yaml", *at)
    machine.run("kseg", "ingest", "orders.yaml", "--progress", "none", "--report", "reports")
    assert "rows written by tasks" in next((machine.folder / "reports").glob("orders-*.html")).read_text()
    # From here a module comes first in Python's path, as for `python -m`: the folder that the user works in.
    verify = ("python", "-m", "kseg.jobs.cli", "verify", "orders.yaml", "--json", "--progress", "none")
    assert json.loads(machine.run(*verify))["ok"]
    # Not by `to_pyarrow_table`, whose threads read through Python: one in fifty processes aborts when it exits.
    count = f"QueryBuilder().register('t', DeltaTable('lake/{topic}')).execute('SELECT count(*) AS n FROM t')"
    imports = "import pyarrow as pa; from deltalake import DeltaTable, QueryBuilder"
    show = f"{imports}; print(pa.table({count}.read_all())['n'])"
    assert "50" in machine.run("python", "-c", show)


def test_the_provider_is_a_wheel_of_its_own(distributions: Path) -> None:
    """`tests/airflow/kseg_airflow/test_provider.py` installs it beside a real Airflow."""
    (wheel,) = distributions.glob("kafka_segment_etl_airflow-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kseg_airflow"}
    assert len(tops) == 2


def test_the_source_distributions_have_what_the_wheels_are_made_of(distributions: Path) -> None:
    names = sorted(path.name for path in distributions.iterdir())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert names == [
        f"kafka_segment_etl-{version}-py3-none-any.whl",
        f"kafka_segment_etl-{version}.tar.gz",
        f"kafka_segment_etl_airflow-{version}-py3-none-any.whl",
        f"kafka_segment_etl_airflow-{version}.tar.gz",
    ]
