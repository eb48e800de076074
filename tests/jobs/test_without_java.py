"""Small runs, their verification, redrive and recovery without Java. No broker: records are in log files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.segment_reader.encode.batches import Record, encode_batch

PROGRAM = """
import json, sys
from click.testing import CliRunner
from kseg.jobs.cli import cli
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli, words)
    print(json.dumps({"exit": done.exit_code, "document": json.loads(done.stdout)}))
assert "pyspark" not in sys.modules
"""


@pytest.fixture
def kseg(tmp_path: Path) -> Any:
    """Runs commands in a process that finds no Java; their exit codes and documents."""

    def run(*commands: list[str]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps([[*words, "--json"] for words in commands])],
            env=os.environ | {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def job_file(folder: Path, name: str, **decode: Any) -> str:
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "decode": {
            "value": {"format": "json", "schema": {"columns": {"n": "bigint"}}},
            "on_error": "dead_letter",
            **decode,
        },
        "sink": {"path": "./lake/orders", "dead_letters": {"path": "./lake/letters", "max": "100%"}},
        "ledger": "./ledger",
        "run": {"engine": "auto"},
    }
    (folder / name).write_text(json.dumps(document))  # JSON is YAML
    return name


def test_a_job_is_run_redriven_and_verified(kseg: Any, log_files: Any, tmp_path: Path) -> None:
    values = [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}']
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch([Record(None, v) for v in values])]])
    strict = job_file(tmp_path, "strict.yaml", expect={"n": "< 3"})
    mended = job_file(tmp_path, "mended.yaml")
    ran, redriven, verified = kseg(["ingest", strict], ["redrive", mended], ["verify", mended])
    assert (ran["exit"], ran["document"]["engine"]["name"]) == (0, "local")
    assert (redriven["exit"], redriven["document"]["counts"]["rows_out"]) == (0, 1)
    assert (verified["exit"], verified["document"]["tables"][0]["rows"]) == (0, 3)


def test_damaged_logs_are_recovered(kseg: Any, log_files: Any, tmp_path: Path) -> None:
    batches = [encode_batch([Record(None, b"v%d" % n)], base_offset=n) for n in range(3)]
    log_files.write_partition(tmp_path / "log" / "orders-0", [batches])
    (segment,) = (tmp_path / "log" / "orders-0").glob("*.log")
    whole = bytearray(segment.read_bytes())
    whole[len(batches[0]) + len(batches[1]) - 1] ^= 0xFF
    segment.write_bytes(whole)
    (recovered,) = kseg(["recover", "./log", "--to", "./out"])
    assert (recovered["exit"], recovered["document"]["rows"], recovered["document"]["quarantined_offsets"]) == (1, 2, 1)
    assert sorted(DeltaTable(tmp_path / "out").to_pyarrow_table()["offset"].to_pylist()) == [0, 2]
