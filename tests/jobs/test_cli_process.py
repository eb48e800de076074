"""The command line as a process: what it leaves on stdout, how it stops, and how spark-submit gets in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.ledger.store import Ledger

ROOT = Path(__file__).parents[2]


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "version: 1\nname: orders\nkafka: {bootstrap.servers: 'localhost:9092', client.id: '${CLIENT}'}\n"
        "source: {topics: [orders]}\nsink: {path: ./lake/orders}\nledger: ./lake/_kseg_ledger\n"
    )
    return file


def process(job_file: Path, body: str, *args: str, **kwargs: Any) -> subprocess.Popen[str]:
    """`kseg ingest` in a process of its own, with a framework that does `body`."""
    script = "import sys, types, os, subprocess, time\nm = types.ModuleType('kseg.etl.run.pipeline')\n"
    script += f"def run_ingest(job, **_):\n{body}\n"
    script += (
        "m.run_ingest = run_ingest\nsys.modules['kseg.etl.run.pipeline'] = m\nfrom kseg.jobs.cli import main\nmain()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, "ingest", str(job_file), *args],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CLIENT": "x"},
        **kwargs,
    )


NOISY = """
    print("python")
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"])
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code", "key"),
    [("return types.SimpleNamespace(to_json=lambda: {'run': 1})", 0, "run"), ("raise ValueError('x')", 1, "error")],
)
def test_json_is_alone_on_stdout_whatever_children_print(job_file: Path, end: str, code: int, key: str) -> None:
    child = process(job_file, NOISY.format(end=end), "--json")
    out, err = child.communicate(timeout=200)
    assert child.returncode == code
    assert key in json.loads(out)
    assert out.count("\n") == 1
    for text in ("python", "descriptor", "child"):
        assert text in err


def test_sigterm_unwinds(job_file: Path) -> None:
    body = """
    try:
        print("ready", file=sys.stderr, flush=True)
        time.sleep(600)
    finally:
        print("lease released", file=sys.stderr, flush=True)
"""
    child = process(job_file, body, "--json")
    assert child.stderr is not None
    assert child.stderr.readline() == "ready\n"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=200)
    assert child.returncode == 1
    assert "lease released" in err
    assert json.loads(out)["error"]["kind"] == "Terminated"


@pytest.mark.parametrize("name", ["ingest", "backfill"])
def test_entry_points_for_spark_submit_take_the_same_arguments(name: str, tmp_path: Path) -> None:
    script = ROOT / "jobs" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(script), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True
    )
    assert "JOB.yaml" in done.stdout
    done = subprocess.run(
        [sys.executable, str(script), "none.yaml", "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["exit_code"] == 2


LOADED = """
import sys
from kseg.jobs.cli import cli
code = cli.main(sys.argv[1:], prog_name="kseg", standalone_mode=False)
unwanted = {"numba", "pyspark", "pandas"}
if sys.argv[1:3] == ["ingest", "orders.yaml"]:  # nothing to do: it looks at ledger, table, topic and group
    unwanted |= {"numpy", "pyarrow", "http.client", "psutil", "tenacity"}
    unwanted |= {f"kseg.etl.{name}" for name in ("decoding.kinds", "planning.schemas", "transform.transform")}
    unwanted |= {f"kseg.etl.{name}" for name in ("planning.backfill", "planning.interval", "spark.spark_errors")}
    unwanted |= {f"kseg.client.{name}" for name in ("admin", "fetch", "registry")}
    unwanted |= {f"kseg.client.security.{name}" for name in ("saslconfig", "tokens")}
    unwanted |= {f"kseg.client.protocol.messages.{name}" for name in ("configs", "share_groups", "streams_groups")}
loaded = unwanted & set(sys.modules)
sys.exit(f"exit {code}, imported {loaded}" if code or loaded else 0)
"""


@pytest.mark.broker
@pytest.mark.parametrize(("name", "decode"), [
    ("orders.yaml", ""),
    ("typed.yaml", "decode: {value: {format: json, schema: {columns: {id: bigint}}}}\n"),
])  # fmt: skip
def test_commands_that_decode_nothing_import_only_what_they_need(
    kafka: Any, tmp_path: Path, name: str, decode: str
) -> None:
    """These are asked every few seconds by schedulers; what they do not need took most of their time."""
    ledger = tmp_path / "ledger"
    (tmp_path / name).write_text(
        f"version: 1\nname: orders\nkafka: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}\n{decode}"
        f"source: {{topics: [{kafka.topic()}]}}\nsink: {{path: {tmp_path}/orders}}\nledger: {ledger}\n"
    )
    Ledger.open(str(ledger), create=True)
    last_year = "--interval=2025-01-01T00:00:00Z/2025-01-02T00:00:00Z"
    for args in (["check"], ["plan"], ["status"], ["interval", last_year], ["ingest"]):
        command, *options = args
        done = subprocess.run(
            [sys.executable, "-c", LOADED, command, name, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
