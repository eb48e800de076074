"""Sections that compare ways to a broker and kinds of tables: all that each of them says is landed is landed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kseg.jobs.bench import day, far, lake
from kseg.jobs.bench.figures import OURS, SPARK, TUNED
from long_commands import printed
from skips import full_scale_only

pytestmark = [pytest.mark.slow, full_scale_only]

# As in `test_measuring.py`: one process for all, whose sessions have the connector's jars.
MEASURE = """
import json
from dataclasses import replace
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import day
from kseg.jobs.bench.efforts import QUICK
from kseg.jobs.bench.measuring import measure

effort = replace(QUICK, rows=4000, rounds=1, warm_up=0, lake_rows=400, day=day.DayEffort(3, 2))
print(json.dumps(measure(effort, ("far", "lake", "day"), NULL_PROGRESS)))
"""


@pytest.fixture(scope="module")
def least() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(printed(MEASURE))
    return document


def test_every_way_to_a_broker_lands_all_rows_on_both_sides(least: dict[str, Any]) -> None:
    found = least["far"]
    assert {run["rows"] for run in found["runs"]} == {4000}
    assert [(run["way"], run["sink"]) for run in found["runs"]] == [(w, c) for c in far.CASES for w in (OURS, TUNED)]
    cases = {entry["case"]: entry for entry in found["cases"]}
    assert cases["far"]["seconds"] >= cases["far"]["round_trips"] * 2 * far.ONE_WAY / 4, "four tasks at once at most"
    assert found["ratios"].keys() == set(far.CASES)


def test_tables_of_forty_columns_by_day_are_written_by_both_sides(least: dict[str, Any]) -> None:
    """Tables that differ in sums or in their number of days fail the measurement."""
    found = least["lake"]
    assert [case["case"] for case in found["cases"]] == ["json", "avro"]
    for case in found["cases"]:
        assert case["rows"] == 400
        assert case["ratios"].keys() == {"vs_spark_decoded", "vs_unpartitioned"}
        assert case["files"][OURS] >= case["files"][lake.FLAT] * lake.DAYS / 2
        assert case["files"][SPARK] >= lake.DAYS


def test_a_day_of_runs_has_fewer_files_after_its_maintenance(least: dict[str, Any]) -> None:
    """A run that lands another number of rows, or a maintenance that changes them, fails the measurement."""
    found = least["day"]
    before, after = found["stages"]
    assert before["rows"] == after["rows"] == found["rows"] == 3 * 2 * day.PARTITIONS
    assert before["files"] > after["files"]
    assert before["in_largest_of_its_day"] < after["in_largest_of_its_day"] == 1.0
    assert after["log_files"] > 3
