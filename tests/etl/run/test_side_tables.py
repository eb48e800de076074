"""What tasks are told about records without a row, or with nulls."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.values import PlannedRange
from kseg.etl.run.side_tables import SideTables

JOB = """
version: 1
name: j
kafka: {bootstrap.servers: "127.0.0.1:1"}
source: {topics: [t]}
decode:
  value: {format: json, schema: {columns: {id: bigint}}}
  on_error: set_null
  max_nulled: 10%
sink: {path: t}
ledger: l
"""
RANGE = PlannedRange("t", 0, 0, 100)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return load_job(str(file))


def planned(rules: int) -> ev.RunPlan:
    return ev.RunPlan("r", "incremental", "incremental", "a", 1, "", "", None, {}, (RANGE,), {}, decoding_rules=rules)


@pytest.mark.parametrize(("rules", "landed", "most"), [(2, False, 10), (2, True, None), (1, False, None)])
def test_nulls_have_a_maximum_until_a_table_of_the_run_has_landed(
    job: Job, rules: int, landed: bool, most: int | None
) -> None:
    plan = planned(rules)
    assert SideTables.of(plan, job).beside(plan, job, {}, landed=landed).most_nulled == most
