"""`--run-file`: another process can follow a run and read its end; what a run says elsewhere stays as it was."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from kseg.etl.errors import Refused
from kseg.etl.run.report import RunReport, TableReport
from kseg.etl.telemetry.progress import Progress
from kseg.jobs.cli import cli
from kseg.jobs.invocation import run_file
from kseg.jobs.invocation.run_file import MESSAGES_KEPT, RunFile
from kseg.jobs.output.redaction import REDACTOR

JOB = """\
version: 1
name: orders
kafka: {bootstrap.servers: "localhost:9092"}
source: {topics: [orders]}
sink: {path: ./lake/orders}
ledger: ./lake/_kseg_ledger
"""
REPORT = RunReport(job="orders", run_id="r1", mode="incremental", status="done", tables=[TableReport("/o", 3, 24)])


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "run.json"


@pytest.fixture
def ingest(tmp_path: Path, told: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`kseg ingest` with a run of the test's own."""
    job = tmp_path / "orders.yaml"
    job.write_text(JOB)

    def run(work: Callable[[Progress], RunReport]) -> Result:
        monkeypatch.setattr("kseg.etl.run.pipeline.run_ingest", lambda _, **given: work(given["progress"]))
        return CliRunner().invoke(cli, ["ingest", str(job), "--json", "--run-file", str(told)])

    return run


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_a_run_tells_its_process_its_phase_and_its_progress(
    ingest: Callable[..., Result], told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "SECONDS_BETWEEN_WRITES", 0.0)
    seen = []

    def work(progress: Progress) -> RunReport:
        seen.append(read(told))
        progress.phase("land")
        seen.append(read(told))
        progress.total(40, "tasks")
        progress.advance(10)
        for number in range(MESSAGES_KEPT + 5):
            progress.message(f"line {number}")
        seen.append(read(told))
        return REPORT

    result = ingest(work)
    assert result.exit_code == 0
    first, landing, last = seen
    assert (first["version"], first["state"], first["phase"], first["result"]) == (1, "running", None, None)
    assert first["command"][0] == "kseg"
    assert (first["pid"], first["pid_started"]) == (os.getpid(), psutil.Process().create_time())
    assert first["pid_ticks"] == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert first["host"] == socket.gethostname()
    assert (landing["phase"], landing["progress"]) == ("land", None)
    assert last["progress"] == {"done": 10, "total": 40, "unit": "tasks"}
    assert last["messages"] == [f"line {number}" for number in range(5, MESSAGES_KEPT + 5)]
    ended = read(told)
    assert (ended["state"], ended["exit_code"]) == ("done", 0)
    assert ended["result"] == json.loads(result.stdout)


def test_a_disk_that_is_full_later_ends_no_run(
    ingest: Callable[..., Result], told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def work(progress: Progress) -> RunReport:
        monkeypatch.setattr(run_file, "replace_file", full)
        progress.phase("land")
        progress.message("landed")
        return REPORT

    result = ingest(work)
    assert (result.exit_code, json.loads(result.stdout)["run"]) == (0, "r1")
    assert (read(told)["state"], read(told)["phase"]) == ("running", None)


def test_a_refusal_is_told_as_json_tells_it(ingest: Callable[..., Result], told: Path) -> None:
    def work(_: Progress) -> RunReport:
        raise Refused("topic-recreated", "the topic was made anew", topic="orders")

    result = ingest(work)
    ended = read(told)
    assert (result.exit_code, ended["exit_code"], ended["state"]) == (3, 3, "failed")
    assert ended["result"] == json.loads(result.stdout)
    assert ended["result"]["error"]["code"] == "topic-recreated"


@pytest.mark.parametrize("words", [["--remote", "sc://h:1/;token=hunter2;x=y"], ["--remote=sc://h:1/;token=hunter2"]])
def test_it_has_no_secret(told: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line is written before anything is loaded."""
    monkeypatch.setattr(REDACTOR, "secrets", set())
    monkeypatch.setattr(sys, "argv", ["kseg", "ingest", "orders.yaml", *words])
    with RunFile(told) as file:
        assert "hunter2" not in told.read_text()
        assert "token=***" in read(told)["command"][-1]
        REDACTOR.learn(["hunter3"])
        file.add_message("the store refuses hunter3")
        file.ended(0, {"notes": ["hunter3"]})
    assert (read(told)["messages"], read(told)["result"]) == (["the store refuses ***"], {"notes": ["***"]})


def test_only_its_owner_may_read_it(ingest: Callable[..., Result], told: Path) -> None:
    ingest(lambda _: REPORT)
    assert told.stat().st_mode & 0o777 == 0o600
    assert [path for path in told.parent.iterdir() if path.name.startswith(".run.json")] == []


def test_a_silent_run_gives_signs_of_life(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    with RunFile(told) as file:
        first = read(told)["updated_at"]
        while read(told)["updated_at"] == first:
            pass
        file.ended(0, {})
    assert read(told)["state"] == "done"


def test_a_module_that_is_just_being_imported_does_not_end_the_signs(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread imports pyspark: it stands among the modules, and has no names yet."""
    monkeypatch.setattr(run_file, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    monkeypatch.setitem(sys.modules, "pyspark", types.ModuleType("pyspark"))
    with RunFile(told) as file:
        for _ in range(3):
            before = read(told)["updated_at"]
            while read(told)["updated_at"] == before:
                pass
        file.ended(0, {})
    assert read(told)["spark"] is None


def test_a_process_that_is_on_its_way_out_leaves_no_file_that_says_it_runs(told: Path) -> None:
    with pytest.raises(SystemExit), RunFile(told):
        raise SystemExit(7)
    assert (read(told)["state"], read(told)["exit_code"]) == ("failed", 1)


def test_a_file_beside_it_stops_the_run_as_sigterm_does(
    ingest: Callable[..., Result], told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    stop = told.with_name("run.json.stop")

    def work(_: Progress) -> RunReport:
        stop.touch()
        while True:
            time.sleep(0.01)

    result = ingest(work)
    ended = read(told)
    assert ended["result"] == json.loads(result.stdout)
    assert (ended["state"], ended["result"]["error"]["kind"]) == ("failed", "Terminated")
    assert not stop.exists()


def test_a_stop_that_came_too_late_is_not_the_next_runs(ingest: Callable[..., Result], told: Path) -> None:
    def work(_: Progress) -> RunReport:
        told.with_name("run.json.stop").touch()
        return REPORT

    assert ingest(work).exit_code == 0
    assert not told.with_name("run.json.stop").exists()


@pytest.mark.parametrize("command", ["ingest", "backfill", "verify", "recover", "repair", "maintain"])
def test_help_tells_of_it(command: str) -> None:
    assert "--run-file FILE" in CliRunner().invoke(cli, [command, "--help"]).output
