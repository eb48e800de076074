"""``kseg broker`` finds again what an earlier command started."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from kseg.jobs.broker import detached
from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.probe import live_brokers
from kseg.jobs.cli import cli


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["broker", *arguments])


def _json(*arguments: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_run(*arguments, "--json").stdout)
    return told


@pytest.mark.broker
def test_start_status_stop(tmp_path: Path) -> None:
    where = str(tmp_path / "kafka")
    assert _run("status", "--dir", where).exit_code == 1
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        taken = _run("start", "--dir", where, "--port", str(port))
        assert taken.exit_code == 1
        assert f"Port {port} is in use" in taken.stderr
    started = _json("start", "--dir", where, "--port", str(port))
    try:
        assert started["started"] is True
        assert started["bootstrap_servers"] == f"127.0.0.1:{port}"
        status = _json("status", "--dir", where)
        assert status["running"] is True
        assert status["version"] == "4.3.1"
        assert {key: status[key] for key in ("bootstrap_servers", "pids", "log_dirs")} == {
            key: started[key] for key in ("bootstrap_servers", "pids", "log_dirs")
        }
        assert live_brokers(int(status["bootstrap_servers"].split(":")[1])) == frozenset({1})
        assert all((Path(folder) / "meta.properties").exists() for folder in status["log_dirs"])

        again = _json("start", "--dir", where)
        assert (again["started"], again["pids"]) == (False, started["pids"])

        other = _run("start", "--brokers", "3", "--dir", where)
        assert other.exit_code == 1
        assert "holds a cluster of 1, not 3" in other.stderr
    finally:
        stopped = _run("stop", "--dir", where)
    assert "is stopped" in stopped.stdout
    assert not any(_alive(pid) for pid in started["pids"])
    assert _run("status", "--dir", where).exit_code == 1
    assert "was not running" in _run("stop", "--dir", where).stdout


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_got_the_number_later_is_left_alone(tmp_path: Path) -> None:
    node = detached.RunningNode(1, psutil.Process().pid, 12345.0, 1, "", "")
    state = detached.BrokerState(str(tmp_path), "4.3.1", "127.0.0.1:1", (node,))
    (tmp_path / "broker.json").write_text(
        json.dumps({"directory": str(tmp_path), "version": "4.3.1", "bootstrap_servers": "", "nodes": [node.__dict__]})
    )
    assert state.running == ()
    assert detached.stop(tmp_path) is False


def test_another_number_of_nodes_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}" / "data").mkdir(parents=True)
        (tmp_path / f"node-{number}" / "data" / "meta.properties").touch()
    with pytest.raises(LocalServerError, match="holds a cluster of 3, not 1"):
        detached.start(tmp_path, nodes=1)


@pytest.mark.parametrize("arguments", [("--feature", "transaction.version"), ("--feature", "a=b"), ("--config", "=1")])
def test_a_malformed_setting_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert _run("start", *arguments).exit_code == 2


@pytest.mark.parametrize("command", [(), ("start",), ("stop",), ("status",)])
def test_each_command_shows_an_example(command: tuple[str, ...]) -> None:
    assert "Example:\n    kseg broker" in _run(*command, "--help").stdout
