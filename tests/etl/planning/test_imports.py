"""A plan starts quickly: neither pyspark nor the record decoder is loaded for one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_plan_of_files_loads_no_spark(log: Path, tmp_path: Path) -> None:
    document = {
        "version": 1,
        "name": "planned",
        "source": {"topics": ["orders"], "segments": str(log)},
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
    assert not of("pyspark py4j numba", loaded(work, tmp_path))
