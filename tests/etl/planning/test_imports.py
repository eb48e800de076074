"""A plan starts quickly: it loads neither pyspark nor pandas."""

from __future__ import annotations

import json
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
