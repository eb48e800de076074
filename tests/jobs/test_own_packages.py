"""A job in a folder that has packages `client`, `etl`, `jobs` and `segment_reader` of its own: ours is `kseg` alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.jobs.bench.standalone import spark_home
from kseg.jobs.broker.java import use_java
from kseg.segment_reader.encode.batches import Record, encode_batch

ROOT = Path(__file__).parents[2]
FILES = {
    "client/__init__.py": "PREFIX = 'mine:'\n",
    "etl/__init__.py": "",
    "etl/mine.py": """
import pyarrow as pa
from client import PREFIX
from jobs.steps import named

def fn(batch):
    values = [PREFIX + value.as_py().decode() for value in batch.column("value")]
    return named(batch, "body", pa.array(values, pa.string()))
""",
    "jobs/__init__.py": "",
    "jobs/steps.py": """
import pyarrow as pa
import segment_reader

def named(batch, name, column):
    return batch.append_column(name, column)

def fn(batch):
    return named(batch, "length", pa.array(segment_reader.lengths(batch.column("value")), pa.int64()))
""",
    "segment_reader/__init__.py": "def lengths(column):\n    return [len(value.as_py()) for value in column]\n",
    "tests/test_mine.py": """
import kseg, kseg.client, kseg.etl.errors, kseg.jobs, kseg.segment_reader
import client, etl, etl.mine, jobs.steps, segment_reader

def test_both_can_be_imported():
    assert client.PREFIX == "mine:"
    assert kseg.etl is not etl
    assert kseg.etl.errors.ExitCode.DONE == 0
""",
    "orders.yaml": """
version: 1
name: orders
source: {topics: [orders], segments: ./log}
transform: [{arrow: "etl.mine:fn"}, {arrow: "jobs.steps:fn"}]
sink: {path: ./lake/orders}
ledger: ./lake/_ledger
spark: {conf: {spark.ui.enabled: false}}
""",
}


@pytest.fixture
def folder(tmp_path: Path, log_files: Any) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    batch = encode_batch([Record(None, b"v%d" % number, (), 1000) for number in range(20)])
    log_files.write_partition(tmp_path / "log" / "orders-0", [[batch]])
    return tmp_path


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(folder: Path) -> Run:
    """run("kseg", "ingest", …): a program in the folder, which is first on Python's path."""
    use_java()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            words,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def kseg(run: Run, *words: str, code: int = 0) -> Any:
    done = run(sys.executable, "-c", "from kseg.jobs.cli import main; main()", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.spark
def test_the_job_runs_here_by_the_command_and_by_spark_submit(folder: Path, run: Run) -> None:
    report = kseg(run, "ingest", "orders.yaml")
    assert (report["status"], report["counts"]["rows_out"]) == ("done", 20)
    rows = DeltaTable(str(folder / "lake" / "orders")).to_pyarrow_table().to_pylist()
    assert {(row["body"], row["length"]) for row in rows} == {(f"mine:v{n}", len(f"v{n}")) for n in range(20)}
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[1]", str(ROOT / "jobs" / "ingest.py")]
    done = run(*submit, "orders.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "nothing-to-do"


@pytest.mark.parametrize("script", ["ingest", "backfill", "submit"])
def test_a_script_of_a_checkout_hides_no_package_behind_ours(run: Run, script: str) -> None:
    """`jobs/packaging` beside the script would hide the distribution of that name."""
    program = (
        "import runpy, sys; sys.path[0] = {folder!r}; sys.argv[:] = ['x', '--help']\n"
        "try: runpy.run_path({script!r}, run_name='__main__')\n"
        "finally: import packaging.version, jobs.steps; assert {folder!r} not in sys.path"
    )
    folder = ROOT / "jobs"
    done = run(sys.executable, "-c", program.format(folder=str(folder), script=str(folder / f"{script}.py")))
    assert done.returncode == 0, done.stderr
    assert "Usage: kseg" in done.stdout


def test_its_packages_are_packed(folder: Path, run: Run) -> None:
    told = kseg(run, "package", "--out", "dist", "--job", "orders.yaml")
    (packed,) = (Path(file["path"]) for file in told["files"] if file["path"].endswith("orders-modules.zip"))
    own = {name for name in FILES if name.endswith(".py") and not name.startswith("tests")}
    assert set(zipfile.ZipFile(packed).namelist()) == own

    (folder / "jobs" / "steps.py").write_text("import not_there")
    told = kseg(run, "package", "--out", "dist", "--job", "orders.yaml", code=2)
    (fault,) = told["error"]["faults"]
    assert "no module not_there" in fault["message"]
    assert "steps.py imports it" in fault["message"]
    assert "PYTHONPATH" in fault["remedy"]


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_a_pytest_of_the_user_imports_both(run: Run, mode: str) -> None:
    done = run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode", mode, "--rootdir", ".", "-q", "tests"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
