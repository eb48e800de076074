"""A command's function gets the common options as one value, and no command asks click's context for them."""

from __future__ import annotations

import ast
import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import kseg.jobs
from kseg.etl.errors import Refused
from kseg.etl.telemetry.events import RunEnded
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import command_config_option, common_options, remote_option
from kseg.jobs.invocation.result import Result
from kseg.jobs.report.options import ReportOptions, report_options

JOBS = Path(next(iter(kseg.jobs.__path__)))


def called(*decorators: Any, arguments: list[str]) -> Invocation:
    """The invocation that a command of these options gets."""
    seen: list[Invocation] = []

    def function(invocation: Invocation, own: str) -> Result:
        seen.append(invocation)
        return Result({}, own)

    for decorator in decorators:
        function = decorator(function)
    command = click.command("try", cls=KsegCommand)(click.option("--own", default="own")(function))
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.exception is None
    assert result.return_value == 0
    return replace(seen[0], progress=NULL_PROGRESS)


def test_options_that_a_command_lacks_have_their_defaults() -> None:
    assert called(arguments=[]) == Invocation(command="try")
    assert called(common_options, report_options, arguments=[]) == Invocation(command="try", report=ReportOptions())


def test_common_options_are_in_the_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSEG_TRACE", raising=False)
    arguments = ["--json", "--progress", "none", "--remote", "sc://host:1", "--command-config", "a.properties"]
    invocation = called(common_options, remote_option, command_config_option, arguments=arguments)
    assert invocation == Invocation(
        command="try", as_json=True, progress_form="none", remote="sc://host:1", command_config="a.properties"
    )
    with pytest.raises(FrozenInstanceError):
        invocation.debug = True  # type: ignore[misc]


def test_a_check_comes_before_the_run_file(tmp_path: Path) -> None:
    """Nothing has begun when a command line is wrong: nothing is written."""
    from kseg.jobs.cli import cli

    file = tmp_path / "run.json"
    result = CliRunner().invoke(cli, ["repair", "orders.yaml", "--run-file", str(file)])
    assert result.exit_code == 2
    assert "give one of --finish RUN, --abandon RUN, --accept-table TABLE" in result.output
    assert not file.exists()


def test_a_failure_after_other_runs_names_those_that_ended(tmp_path: Path) -> None:
    def function(invocation: Invocation) -> Result:
        for run in ("one", "two"):
            invocation.progress.event(RunEnded({"job": "orders", "run": run, "status": "done", "notes": []}))
        raise Refused("gone", "the third was refused")

    command = click.command("ingest", cls=KsegCommand)(common_options(report_options(function)))
    result = CliRunner().invoke(command, ["--json", "--report", str(tmp_path / "pages")], standalone_mode=False)
    assert result.return_value == 3
    failed = json.loads(result.stdout)
    assert failed["ended_runs"] == ["one", "two"]
    assert failed["error"]["code"] == "gone"
    assert len(list((tmp_path / "pages").glob("*.html"))) >= 3


def test_no_command_asks_clicks_context() -> None:
    asking = [
        path.name
        for path in JOBS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("get_current_context", "meta", "obj")
        if path.parent.name != "website"  # a page of the site has a `meta`, too
    ]
    assert asking == []
