"""The engine of a run as plan, report and history show it. No broker: the records are in log files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.runs import history
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.cli import cli
from kseg.segment_reader.encode.batches import Record, encode_batch


@pytest.fixture(autouse=True)
def without_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file's tests may have started Spark in this process."""
    monkeypatch.setattr("kseg.etl.executors.engine._spark_here", lambda: "none")


@pytest.fixture
def job(log_files: Any, tmp_path: Path) -> Callable[..., Job]:
    """A job over forty records, with these sections."""
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch([Record(None, b"v")] * 40)]])

    def load(**sections: Any) -> Job:
        document = {
            "version": 1,
            "name": "orders",
            "source": {"topics": ["orders"], "segments": "./log"},
            "sink": {"path": "./lake/orders"},
            "ledger": "./ledger",
        }
        (tmp_path / "job.yaml").write_text(json.dumps(document | sections))  # JSON is YAML
        return load_job(tmp_path / "job.yaml")

    return load


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "job.yaml")


SQL = {"transform": [{"sql": "SELECT * FROM __rows__"}]}
CLUSTERED = {"sink": {"path": "./lake/orders", "cluster_by": ["offset"], "single_driver": True}}


@pytest.mark.parametrize(
    ("run", "sections", "engine", "why"),
    [
        ({}, {}, "spark", "run.engine is spark"),
        ({"engine": "local"}, {}, "local", "run.engine is local"),
        ({"engine": "auto"}, {}, "local", "less to read than run.local_below (64 MB)"),
        ({"engine": "auto", "local_below": 1}, {}, "spark", "to read, which is not below run.local_below"),
        ({"engine": "auto"}, SQL, "spark", "transform[0].sql is a step that Spark runs"),
        ({"engine": "auto"}, CLUSTERED, "spark", "has to be written by Spark"),
    ],
)
def test_a_plan_shows_the_engine_and_why(
    job: Callable[..., Job], file: str, run: dict[str, Any], sections: dict[str, Any], engine: str, why: str
) -> None:
    found = plan_only(job(**sections, run=run)).engine
    assert found is not None
    assert found.name == engine
    assert why in found.why
    shown = CliRunner().invoke(cli, ["plan", file, "--json"])
    assert json.loads(shown.stdout)["engine"] == {"name": engine, "why": found.why}
    assert found.why in " ".join(CliRunner().invoke(cli, ["plan", file]).stdout.split())


def test_a_plan_is_refused_where_its_run_would_be(job: Callable[..., Job], tmp_path: Path) -> None:
    """The table was made by others, with what only Spark writes."""
    planned = job(run={"engine": "local"})
    table = DeltaTable.create(str(tmp_path / "lake" / "orders"), pa.schema([("offset", pa.int64())]))
    table.alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(ConfigurationError, match="local cannot run this job"):
        plan_only(planned)


def test_reports_and_history_show_the_engine(job: Callable[..., Job], file: str) -> None:
    ran = job(run={"engine": "auto"})
    report = run_ingest(ran)
    assert report.engine is not None
    why = "less to read than run.local_below (64 MB)"
    assert (report.engine.name, report.engine.why) == ("local", why)
    assert plan_only(ran).engine is None, "there is nothing to read"
    (run,) = history(ran).runs
    assert (run.run, run.engine, run.engine_reason) == (report.run_id, "local", why)
    shown = CliRunner().invoke(cli, ["runs", file])
    assert f"local: {why}" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 120


FIRST = """
import sys
from kseg.etl.executors.local import server_process
class Observed(server_process.ServerProcess):
    def __init__(self, **options):
        loaded.extend({"kseg.etl.run.land", "kseg.etl.tasks.packs"} & set(sys.modules))
        super().__init__(**options)
loaded, server_process.ServerProcess = [], Observed
from kseg.jobs.cli import cli
code = cli.main(["ingest", sys.argv[1]], prog_name="kseg", standalone_mode=False)
sys.exit(f"exit {code}, loaded before: {loaded}" if code or loaded else 0)
"""


def test_worker_processes_load_while_the_driver_loads_what_landing_needs(job: Callable[..., Job], file: str) -> None:
    job(run={"engine": "local"})
    done = subprocess.run([sys.executable, "-c", FIRST, file], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
