"""A table that no run could use is a problem in a job's status, and not the end of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kseg.etl.ledger.state import JobState
from kseg.etl.operations.status import _table
from kseg.etl.tables.targets import Targets


def test_a_table_whose_place_is_a_file_is_a_problem(tmp_path: Path) -> None:
    place = tmp_path / "orders"
    place.write_text("")
    job: Any = SimpleNamespace(ledger=str(tmp_path / "ledger"), sink=SimpleNamespace(routed=False))
    targets = Targets(job, lambda: None)  # type: ignore[arg-type, return-value]
    context: Any = SimpleNamespace(targets=targets, inputs=SimpleNamespace(job=job, tables=targets))
    line, problem = _table(context, JobState(job="orders", ledger_id=""), str(place))
    assert problem is not None
    assert (problem.code, problem.remedy) == ("ConfigurationError", "give the path of a folder")
    assert "is a file, not a folder" in str(line.problem)
