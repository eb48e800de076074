"""A command that was started without stdout or stderr works, and prints into none of its own files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOISY = """
import os, sys, types
pipeline = types.ModuleType('kseg.etl.run.pipeline')
def run_ingest(job, **_):
    with open(sys.argv[2], 'w') as file:
        os.write(1, b'a library')
        os.write(2, b'the JVM')
        os.system('echo a child; echo a child >&2')
        file.write('rows')
    return types.SimpleNamespace(to_json=lambda: {'run': 1})
pipeline.run_ingest = run_ingest
sys.modules['kseg.etl.run.pipeline'] = pipeline
from kseg.jobs.cli import main
main(['ingest', sys.argv[1], *sys.argv[3:]])
"""


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_what_is_printed_goes_nowhere(tmp_path: Path, redirection: str, form: list[str]) -> None:
    """The first file that the command opened was its descriptor 2. Without stderr a command ended in AttributeError."""
    job, rows = tmp_path / "orders.yaml", tmp_path / "rows"
    job.write_text(
        "version: 1\nname: orders\nkafka: {bootstrap.servers: 'localhost:9092'}\nsource: {topics: [orders]}\n"
        "sink: {path: ./lake/orders}\nledger: ./lake/_kseg_ledger\n"
    )
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$@" {redirection}', sys.executable, NOISY, job, rows, *form],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0
    assert rows.read_text() == "rows"
    if form and redirection == "2>&-":
        assert json.loads(done.stdout)["run"] == 1
