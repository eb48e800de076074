"""`kseg check`, and commands that plan a run: schemas of `decode:` are compiled before anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli

JOB = """version: 1
name: orders
kafka: {bootstrap.servers: "localhost:1"}
source: {topics: [orders]}
decode:
  value:
    format: json
    schema:
      columns:
        id: bigint
        customer: strng
  expect:
    amount: not null
sink: {path: ./lake/orders}
ledger: ./lake/_kseg_ledger
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "orders.yaml"
    place.write_text(JOB)
    return place


def test_a_type_that_does_not_exist_is_a_fault_with_its_line(file: Path) -> None:
    result = CliRunner().invoke(cli, ["check", str(file), "--json"])
    assert result.exit_code == 2
    [fault] = json.loads(result.stdout)["files"][0]["faults"]
    assert (fault["path"], fault["line"]) == ("decode.value.schema.columns.customer", 11)


def test_an_expectation_of_no_column_is_a_fault_with_its_line(file: Path) -> None:
    file.write_text(JOB.replace("strng", "string"))
    result = CliRunner().invoke(cli, ["check", str(file)])
    assert result.exit_code == 2
    assert "decode.expect.amount (line 13): is no column of the decoded rows" in result.stderr


@pytest.mark.parametrize("command", [["plan"], ["ingest"], ["backfill", "--from", "orders:0:0"]])
def test_a_run_is_not_planned_with_it(file: Path, command: list[str]) -> None:
    """No broker is asked: there is none at this address."""
    result = CliRunner().invoke(cli, [command[0], str(file), *command[1:]])
    assert result.exit_code == 2, result.stderr
    assert "decode.value.schema.columns.customer (line 11)" in result.stderr


def test_a_sound_file_is_valid(file: Path) -> None:
    file.write_text(JOB.replace("strng", "string").replace("amount", "id"))
    result = CliRunner().invoke(cli, ["check", str(file)])
    assert result.exit_code == 0
    assert "1 of 1 job files are valid" in result.stdout
