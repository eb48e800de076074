"""What a command prints of its result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kseg.jobs.invocation.execution import execute
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result
from kseg.jobs.output.redaction import REDACTOR


@pytest.mark.parametrize("as_json", [True, False])
def test_a_result_is_shown_without_secrets(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`kseg status` printed the message of an error that an earlier release had written to the ledger."""
    monkeypatch.setattr(REDACTOR, "secrets", {"hunter2"})
    file = tmp_path / "run.json"
    result = Result({"runs": [{"error": "Spark failed: hunter2"}]}, "orders: hunter2")
    invocation = Invocation(command="status", as_json=as_json, run_file=str(file))
    assert execute(invocation, lambda _: result) == 0
    shown = capfd.readouterr().out
    assert ("***" in shown, "hunter2" in shown) == (True, False)
    assert json.loads(file.read_text())["result"] == {"runs": [{"error": "Spark failed: ***"}]}
