"""`kseg check`, and commands that plan a run: schemas of `decode:` are compiled before anything else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.etl.errors import KsegError
from kseg.jobs.cli import cli
from kseg.jobs.output.redaction import REDACTOR

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
    assert result.stdout.splitlines()[3].split() == ["file", "valid"]


STEPS = """transform:
  - arrow: steps_of_check:first
  - sql: SELECT * FROM __rows__
  - python: steps_of_check:second
"""


def with_steps(file: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(JOB.partition("decode:")[0] + STEPS + JOB[JOB.index("sink:") :])
    (file.parent / "steps_of_check.py").write_text(module)
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, "steps_of_check", raising=False)


@pytest.mark.parametrize("command", ["check", "plan", "ingest"])
def test_functions_of_the_transform_are_imported(file: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_steps(file, "def first(batch): return batch", monkeypatch)
    result = CliRunner().invoke(cli, [command, str(file)])
    assert result.exit_code == 2, result.stderr
    assert "transform[2].python (line 8): cannot load steps_of_check:second" in result.stderr
    assert "transform[0]" not in result.stderr


def test_a_module_that_raises_is_a_fault_of_the_job(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_steps(file, "1 / 0", monkeypatch)
    result = CliRunner().invoke(cli, ["check", str(file)])
    assert result.exit_code == 2
    assert "its module raises ZeroDivisionError: division by zero" in result.stderr


def test_what_was_not_checked_is_listed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_steps(file, "def first(batch): return batch\nsecond = first", monkeypatch)
    result = CliRunner().invoke(cli, ["check", str(file), "--json"])
    assert result.exit_code == 0, result.stderr
    warnings = json.loads(result.stdout)["files"][0]["warnings"]
    assert any("transform[1].sql, transform[2].python, which --with-spark" in one for one in warnings)
    assert any("--connect asks" in one for one in warnings)


def test_an_arrow_step_whose_rows_no_table_can_hold_is_found_without_spark(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_steps(file, "def first(batch): return batch.select(['value'])\nsecond = first", monkeypatch)
    text = file.read_text()
    file.write_text(text[: text.index("  - sql")] + text[text.index("sink:") :])
    result = CliRunner().invoke(cli, ["check", str(file)])
    assert result.exit_code == 2, result.stderr


def test_with_spark_needs_a_dry_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(cli, ["ingest", str(file), "--with-spark"])
    assert (result.exit_code, "--with-spark goes with --dry-run" in result.stderr) == (2, True)


@pytest.mark.parametrize("options", [["--connect"], ["--connect", "--json"], ["--with-spark"], ["--json"]])
def test_no_secret_of_a_checked_job_is_printed(file: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of stores and of Spark may quote it."""

    def warned(*_: Any, **__: Any) -> list[str]:
        return ["the store refuses hunter2"]

    def refused(*_: Any, **__: Any) -> None:
        raise KsegError("the store refuses hunter2")

    monkeypatch.setattr(REDACTOR, "secrets", set())
    monkeypatch.setattr("kseg.etl.run.check_job.check_steps", warned)
    monkeypatch.setattr("kseg.etl.run.dry_run.plan_only", refused)
    monkeypatch.setenv("STORE_PASSWORD", "hunter2")
    job = JOB.partition("decode:")[0] + JOB[JOB.index("sink:") :]
    file.write_text(job + "spark: {conf: {spark.hadoop.x: '${STORE_PASSWORD}'}}")
    result = CliRunner().invoke(cli, ["check", str(file), *options])
    assert "the store refuses ***" in result.output
    assert "hunter2" not in result.output
