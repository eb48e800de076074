"""The commands of a refusal are read from its text as a person reads them."""

from __future__ import annotations

import pytest

from fault_suite.ways_out import commands_of


@pytest.mark.parametrize(
    ("remedy", "commands"),
    [
        ("`kseg repair JOB --finish 7-ab` completes it", [["repair", "JOB", "--finish", "7-ab"]]),
        (
            "`kseg repair JOB --finish 7-ab` completes it, `--abandon` removes its rows",
            [["repair", "JOB", "--finish", "7-ab"], ["repair", "JOB", "--abandon", "7-ab"]],
        ),
        ("accept it: `kseg repair JOB --accept-table TABLE`", [["repair", "JOB", "--accept-table", "/lake/first"]]),
        ("run the job again: it chooses its writer", [["ingest", "JOB"]]),
        ("start the run again", [["ingest", "JOB"]]),
        ("correct `ledger:` in the job file", []),
        (None, []),
    ],
)
def test_commands(remedy: str | None, commands: list[list[str]]) -> None:
    assert commands_of({"remedy": remedy}, "/lake/first") == commands
