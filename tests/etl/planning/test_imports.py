"""A plan starts quickly: it loads neither pyspark nor pandas. A run with nothing to do loads no Arrow, a small local
one no pandas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kseg.segment_reader.encode.batches import Record, encode_batch

LOADED = """
import sys
{work}
print("\\n".join(sorted(sys.modules)))
"""


def loaded(work: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(work=work)], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def of(packages: str, modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in packages.split()}


@pytest.mark.parametrize("room", ["plan", "preflight", "backfill", "interval", "inputs"])
def test_planning_imports_no_spark(room: str, tmp_path: Path) -> None:
    modules = loaded(f"import kseg.etl.planning.{room}", tmp_path)
    assert f"kseg.etl.planning.{room}" in modules
    assert not of("pyspark py4j numba", modules)
    assert not {name for name in modules if name.startswith(("kseg.etl.spark", "kseg.etl.run", "kseg.etl.operations"))}


def test_what_a_run_loads_before_it_has_something_to_read_is_neither_arrow_nor_numpy(tmp_path: Path) -> None:
    modules = loaded("import kseg.etl.config.load, kseg.etl.run.pipeline, kseg.etl.source.brokers.logs", tmp_path)
    assert "kseg.etl.run.pipeline" in modules
    assert not of("pyspark py4j pandas numba pyarrow numpy", modules)


def test_landing_loads_no_client_of_a_registry(tmp_path: Path) -> None:
    modules = loaded("import kseg.etl.run.land", tmp_path)
    assert "kseg.etl.run.schemas" in modules
    assert not {"http.client", "kseg.client.registry.opening"} & modules


def test_a_plan_of_files_loads_no_spark(log_files: Any, tmp_path: Path) -> None:
    batch = encode_batch([Record(None, b"v%d" % number, (), 1000) for number in range(20)])
    log_files.write_partition(tmp_path / "log" / "orders-0", [[batch]])
    document = {
        "version": 1,
        "name": "planned",
        "source": {"topics": ["orders"], "segments": "./log"},
        "sink": {"path": "./lake/orders"},
        "ledger": "./ledger",
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    work = """
from pathlib import Path
from kseg.etl.config.load import load_job
from kseg.etl.run.dry_run import plan_only
[planned] = plan_only(load_job(Path("job.yaml"))).ranges
assert planned.end > planned.start
"""
    assert not of("pyspark py4j pandas", loaded(work, tmp_path))


#: Python runs it at its start, in every process of a run.
SITE = """
import os, sys
class Marks:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("pandas", "pyspark"):
            open(f"{os.environ['MARKS']}/{name}-{os.getpid()}", "w").close()
sys.meta_path.insert(0, Marks)
"""


@pytest.mark.parametrize("partition_by", [[], ["kind"]])
def test_no_process_of_a_local_run_loads_pandas(log_files: Any, tmp_path: Path, partition_by: list[str]) -> None:
    """Workers did, for the few values that pyarrow makes of Python's: 0.3 s of processor time. Where a step makes
    values, they still do."""
    batch = encode_batch([Record(None, b'{"kind": "%d"}' % (number % 3), (), 1000) for number in range(20)])
    log_files.write_partition(tmp_path / "log" / "orders-0", [[batch]])
    job = {
        "version": 1,
        "name": "landed",
        "source": {"topics": ["orders"], "segments": str(tmp_path / "log")},
        "decode": {"value": {"format": "json", "schema": {"columns": {"kind": "string"}}}},
        "sink": {"path": str(tmp_path / "lake" / "orders"), "partition_by": partition_by},
        "ledger": str(tmp_path / "ledger"),
        "run": {"engine": "local"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    marks, site = tmp_path / "marks", tmp_path / "site"
    marks.mkdir()
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    environment = os.environ | {"PYTHONPATH": str(site), "MARKS": str(marks)}
    command = [sys.executable, "-m", "kseg.jobs.cli", "ingest", str(tmp_path / "job.yaml"), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["counts"]["rows_out"] == 20
    assert list(marks.iterdir()) == []
