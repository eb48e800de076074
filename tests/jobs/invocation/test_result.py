"""What people are shown of a command's report."""

from __future__ import annotations

import pytest

from kseg.etl.run.report import RangeReport, RunReport
from kseg.jobs.invocation.result import planned_result, run_result

PLANNED = RunReport("orders", None, "incremental", "dry-run", [RangeReport("orders", 0, 5, 25)], notes=["not checked"])


@pytest.mark.parametrize("of_plan", [True, False], ids=["plan", "a dry run"])
def test_a_plan_shows_no_counts_of_what_it_has_not_read(of_plan: bool) -> None:
    """`counts records 0 control 0 …` looked as if nothing were there."""
    result = planned_result(PLANNED.to_json()) if of_plan else run_result(PLANNED)
    assert result.headline == "orders: 20 offsets in 1 range(s) to read"
    assert result.document == PLANNED.to_json(), "of --json"
    assert result.people is not None
    assert not {"counts", "status"} & result.people.keys()
    assert result.people["notes"] == ["not checked"]


def test_a_plan_without_records_is_one() -> None:
    nothing = RunReport("orders", None, "incremental", "nothing-to-do")
    assert planned_result(nothing.to_json()).headline == "orders: 0 offsets in 0 range(s) to read"
    assert run_result(nothing).headline == "orders: nothing-to-do"
