"""`kseg logs`: logs of failed commands are found by their run, newest first; `--quiet` leaves errors alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.etl.telemetry.events import JobOpened, RunPlanned
from kseg.jobs.cli import cli
from kseg.jobs.invocation.execution import execute
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KSEG_LOGS", str(tmp_path))
    return tmp_path


def fail(run: str | None, job: str = "orders") -> None:
    def work(invocation: Invocation) -> Result:
        invocation.progress.event(JobOpened(SimpleNamespace(name=job), None))  # type: ignore[arg-type]
        if run is not None:
            plan: Any = SimpleNamespace(run_id=run)
            invocation.progress.event(RunPlanned(plan, 1, taken_up=False))
        raise KeyError(f"what {run} \x1b[31m met")

    execute(Invocation(command="ingest", progress_form="none"), work)


def invoke(*words: str) -> Any:
    return CliRunner().invoke(cli, ["logs", *words])


def test_the_log_of_a_run_is_found_by_a_part_of_its_id() -> None:
    fail("4be1f00c52-17-9a3e11d0")
    found = invoke("9a3e11d0")
    assert found.exit_code == 0
    assert "run: 4be1f00c52-17-9a3e11d0" in found.stdout
    assert "Traceback" in found.stdout
    assert "\x1b" not in found.stdout
    assert json.loads(invoke("9a3e", "--json").stdout)["job"] == "orders"
    missing = invoke("ffff")
    assert (missing.exit_code, "no log of a run ffff" in missing.stderr) == (2, True)


def test_all_logs_are_listed_with_their_errors(folder: Path) -> None:
    fail("r1")
    (folder / "20200101T000000-ingest-1.log").write_text("Traceback of an earlier release\n")
    (folder / "another.log").write_text("of another program")
    document = json.loads(invoke("--json").stdout)
    assert [(log["run"], log["command"]) for log in document["logs"]] == [("r1", "ingest"), (None, "ingest")]
    assert "KeyError" in document["logs"][0]["error"]
    assert json.loads(invoke("--json", "--job", "other").stdout)["logs"] == []
    assert "KeyError" in invoke().stdout


def test_a_quiet_command_prints_errors_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def work(invocation: Invocation) -> Result:
        invocation.progress.message("working")
        return Result({"a": 1}, "done")

    assert execute(Invocation(command="ingest", quiet=True, progress_form="lines"), work) == 0
    assert capsys.readouterr() == ("", "")
    assert execute(Invocation(command="ingest", quiet=True, as_json=True), work) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"a": 1}, "")

    def broken(invocation: Invocation) -> Result:
        raise KeyError("what")

    assert execute(Invocation(command="ingest", quiet=True), broken) == 1
    assert "KeyError" in capsys.readouterr().err
