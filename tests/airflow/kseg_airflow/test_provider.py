"""The package as Airflow's provider manager finds it: built, installed beside a real Airflow, and listed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kseg_airflow import __version__
from kseg_airflow.compat import BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator, BaseTrigger
from kseg_airflow.provider_info import get_provider_info

ROOT = Path(__file__).parents[3]
KINDS = (".py", ".json", ".yaml")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package was built and installed into, from a copy of its sources, without what it needs."""
    folder = tmp_path_factory.mktemp("installed")
    source = tmp_path_factory.mktemp("source") / "airflow"
    subprocess.run(["/bin/cp", "-r", str(ROOT / "airflow"), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", str(folder), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_has_all_that_runs_and_nothing_else(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir()) == [
        "kafka_segment_etl_airflow-" + __version__ + ".dist-info",
        "kseg_airflow",
    ]
    checkout = ROOT / "airflow"
    folders = {"kseg_airflow": "", "dags": "example_dags", "first_steps": "example_config"}
    sources = {
        Path(name) / path.relative_to(checkout / folder)
        for folder, name in folders.items()
        for path in (checkout / folder).rglob("*.*")
        if path.suffix in KINDS
    }
    found = {path.relative_to(installed / "kseg_airflow") for path in (installed / "kseg_airflow").rglob("*.*")}
    assert {path for path in found if path.suffix in KINDS} == sources


def test_the_examples_are_written_out_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "kseg_airflow.first_steps", str(tmp_path / "first")]
    env = {**os.environ, "PYTHONPATH": str(installed)}
    subprocess.run(words, check=True, env=env, cwd=tmp_path)
    for folder, name in (("dags", "dags"), ("first_steps", "config")):
        files = [path for path in (ROOT / "airflow" / folder).rglob("*.*") if path.suffix in KINDS]
        assert files
        for path in files:
            assert (
                tmp_path / "first" / name / path.relative_to(ROOT / "airflow" / folder)
            ).read_text() == path.read_text()
    (tmp_path / "first" / "dags" / "orders.yaml").write_text("mine")
    subprocess.run(words, check=True, env=env, cwd=tmp_path)
    assert (tmp_path / "first" / "dags" / "orders.yaml").read_text() == "mine"


def test_airflow_lists_it(installed: Path, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "PYTHONPATH": str(installed),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
    words = [sys.executable, "-m", "airflow", "providers", "list", "--output", "json"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("[") :])
    (ours,) = [entry for entry in found if entry["package_name"] == "kafka-segment-etl-airflow"]
    assert ours["version"] == __version__


def test_the_metadata_is_as_airflow_wants_it_and_names_what_exists() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    import airflow

    schema = json.loads((Path(next(iter(airflow.__path__))) / "provider_info.schema.json").read_text())
    info = get_provider_info()
    jsonschema.validate(info, schema)
    kinds = {"operators": BaseOperator, "sensors": BaseSensorOperator, "triggers": BaseTrigger, "hooks": BaseHook}
    for key, base in kinds.items():
        for module in (name for entry in info[key] for name in entry["python-modules"]):
            members = vars(importlib.import_module(module)).values()
            assert any(isinstance(member, type) and issubclass(member, base) for member in members), module
    for name in info["extra-links"]:
        module, _, link = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), link), BaseOperatorLink)


def test_it_is_not_installed_beside_an_airflow_that_tells_triggers_nothing_of_a_stop(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    required = [Requirement(text) for text in PathDistribution(metadata).requires or ()]
    (airflow,) = [one.specifier for one in required if one.name == "apache-airflow"]
    taken = {
        release for release in ("2.10.5", "2.11.2", "3.0.6", "3.1.8", "3.2.2", "3.3.0", "3.3.2") if release in airflow
    }
    assert taken == {"2.11.2", "3.3.0", "3.3.2"}


@pytest.mark.parametrize("with_airflow", [True, False])
def test_the_repositorys_root_shadows_no_airflow(with_airflow: bool, tmp_path: Path) -> None:
    """`airflow/` at the root has no `__init__.py`: with Airflow installed that is found, without it nothing is."""
    code = (
        "import airflow, importlib.util as u; print(getattr(airflow, '__file__', None), u.find_spec('airflow.models'))"
    )
    # -I -S: no site-packages, so no Airflow; the repository's root alone.
    isolated = ["-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    words = [sys.executable, *(["-W", "ignore", "-c", code] if with_airflow else isolated)]
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1]
    assert ("site-packages" in told) is with_airflow
    assert told == "None None" or with_airflow
