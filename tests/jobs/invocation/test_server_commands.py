"""What `kseg broker` and `kseg registry` say of servers that were never started, or died."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kseg.jobs.broker import detached as broker
from kseg.jobs.cli import cli
from kseg.jobs.registry import detached as registry

NOTHING = {
    "broker": {"bootstrap_servers": None, "log_dirs": [], "version": None, "pids": [], "running": False},
    "registry": {"url": None, "pid": None, "running": False},
}


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(("command", "noun"), [("broker", "Kafka"), ("registry", "registry")])
def test_a_directory_without_a_server(tmp_path: Path, command: str, noun: str) -> None:
    where = str(tmp_path)
    status = _run(command, "status", "--dir", where)
    assert (status.exit_code, status.stdout) == (1, f"No {noun} runs in {where}.\n")
    as_json = _run(command, "status", "--dir", where, "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, NOTHING[command])
    stopped = _run(command, "stop", "--dir", where)
    assert stopped.exit_code == 0
    assert stopped.stdout.endswith(f"{noun} in {where} was not running.\n")
    assert json.loads(_run(command, "stop", "--dir", where, "--json").stdout) == {"stopped": False, "directory": where}


def _dead_broker(folder: Path) -> None:
    node = {"id": 1, "pid": 1, "began": 0.0, "port": 1, "log_dir": "data", "log_file": "broker.log"}
    state = {"directory": str(folder), "version": "4.3.1", "bootstrap_servers": "127.0.0.1:1", "nodes": [node]}
    (folder / "broker.json").write_text(json.dumps(state))
    assert broker.read(folder) is not None


def _dead_registry(folder: Path) -> None:
    state = {"version": "3.0.9", "url": "http://127.0.0.1:1", "port": 1, "pid": 1, "began": 0.0, "log_file": "log"}
    (folder / "registry.json").write_text(json.dumps(state | {"directory": str(folder)}))
    assert registry.read(folder) is not None


@pytest.mark.parametrize(
    ("command", "died", "said"),
    [
        ("broker", _dead_broker, "Kafka 4.3.1 does not answer (0 of 1 nodes run).\n  bootstrap.servers  127.0.0.1:1"),
        ("registry", _dead_registry, "No registry runs in "),
    ],
)
def test_a_server_that_died(tmp_path: Path, command: str, died: Callable[[Path], Any], said: str) -> None:
    died(tmp_path)
    status = _run(command, "status", "--dir", str(tmp_path))
    assert status.exit_code == 1
    assert status.stdout.startswith(said)
    assert json.loads(_run(command, "status", "--dir", str(tmp_path), "--json").stdout)["running"] is False
    assert "was not running" in _run(command, "stop", "--dir", str(tmp_path)).stdout
