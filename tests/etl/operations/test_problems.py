"""What `kseg status` says of unfinished runs: the command that completes each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.operations import problems

CHANGED = "the job file has changed since"


@pytest.mark.parametrize(
    ("chain", "mode", "landed", "accounted", "changed", "begins"),
    [
        ("incremental", "incremental", False, False, None, "run the job again: it continues run R"),
        ("incremental", "incremental", True, False, None, "run the job again: it continues run R"),
        ("incremental", "incremental", True, False, CHANGED, "`kseg repair JOB --finish R` completes it as it was"),
        ("incremental", "incremental", True, True, CHANGED, "run the job again: it continues run R"),
        ("incremental", "incremental", False, False, CHANGED, "run the job again: it abandons run R, unless"),
        ("b", "backfill-missing", False, False, None, "`kseg repair JOB --finish R` completes it"),
        ("b", "backfill-missing", False, False, CHANGED, "`kseg repair JOB --finish R` completes it as it was"),
        ("r", "redrive", False, False, None, "`kseg redrive JOB` completes run R"),
        ("r", "redrive", False, False, CHANGED, "`kseg repair JOB --finish R` completes it as it was planned"),
    ],
)
def test_the_command_that_completes_a_run_is_one_that_is_not_refused(
    chain: str,
    mode: str,
    landed: bool,
    accounted: bool,
    changed: str | None,
    begins: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "change_since", lambda *_, copy: changed)
    run: Any = SimpleNamespace(
        run_id="R", chain=chain, mode=mode, landed={"t": 1} if landed else {}, accounted=object() if accounted else None
    )
    job: Any = None
    text = problems._continues(job, run)
    assert text.startswith(begins)
    if changed is not None and not accounted:
        assert text.endswith(f"`kseg repair JOB --finish R` completes it as it was planned: {CHANGED}")
