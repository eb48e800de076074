"""The wheel alone, in an empty environment and a folder full of colliding names: from a topic to a verified table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from skips import FULL, IN_FULL

ROOT = Path(__file__).parents[3]
COLLIDING = ("client", "config", "decoder", "etl", "jobs", "kafka", "registry", "segment_reader", "utils")
ORDERS = "".join(f'{{"id": {number}, "amount": {number}.25, "note": "n{number}"}}\n' for number in range(50))
FROM_CHECKOUT = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
OTHER_PYTHONS = ("python3.12", "python3.13")


def runs(python: str) -> bool:
    """Whether there is such an interpreter: a shim of pyenv exists for releases that are switched off, too."""
    try:
        return subprocess.run([python, "--version"], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


class Machine:
    """An environment with the wheel, and the folder in which a user works. broker: a port of the embedded Kafka."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin = environment / "bin"
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name not in FROM_CHECKOUT}
        self.env["PATH"] = f"{self.bin}{os.pathsep}{self.env['PATH']}"

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module", params=[sys.executable, *OTHER_PYTHONS], ids=lambda python: Path(python).name)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if request.param in OTHER_PYTHONS and not FULL:
        pytest.skip(IN_FULL)
    if not runs(request.param):
        pytest.skip(f"{request.param} is not installed here; with it: make test-full")
    folder = tmp_path_factory.mktemp("user")
    environment = folder / "environment"
    wheels = folder / "wheels"
    subprocess.run([request.param, "-m", "venv", str(environment)], check=True, timeout=300)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = wheels.glob("*.whl")
    work = folder / "work"
    work.mkdir()
    for name in COLLIDING:
        (work / f"{name}.py").write_text("raise SystemExit('the module of a user was imported')\n")
    made = Machine(environment, work)
    constraints = ROOT / "constraints.txt"
    wanted = f"{wheel}[all]" if FULL else str(wheel)
    made.run("python", "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", str(constraints), wanted)
    yield made
    subprocess.run(["rm", "-rf", str(environment)], check=True)  # 1.3 GB


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
    started = json.loads(machine.run("kseg", "broker", "start", "--dir", "kafka", "--json"))
    yield started["bootstrap_servers"]
    machine.run("kseg", "broker", "stop", "--dir", "kafka")


@pytest.mark.broker
@pytest.mark.spark
def test_a_topic_becomes_a_verified_table_and_a_page(machine: Machine, bootstrap: str) -> None:
    topic, at = "orders", ("--bootstrap", bootstrap)
    (machine.folder / "orders.jsonl").write_text(ORDERS)
    machine.run("kseg", "produce", topic, "orders.jsonl", "--create", *at)
    machine.run("kseg", "init", "--topic", topic, "-o", "orders.yaml", *at)
    machine.run("kseg", "ingest", "orders.yaml", "--progress", "none", "--report", "reports")
    assert "rows written by tasks" in next((machine.folder / "reports").glob("orders-*.html")).read_text()
    verified = json.loads(machine.run("kseg", "verify", "orders.yaml", "--json", "--progress", "none"))
    assert verified["ok"]
    # Not by `to_pyarrow_table`, whose threads read through Python: one in fifty processes aborts when it exits.
    count = f"QueryBuilder().register('t', DeltaTable('lake/{topic}')).execute('SELECT count(*) AS n FROM t')"
    imports = "import pyarrow as pa; from deltalake import DeltaTable, QueryBuilder"
    show = f"{imports}; print(pa.table({count}.read_all())['n'])"
    assert "50" in machine.run("python", "-c", show)
