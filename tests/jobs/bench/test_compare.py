"""Two documents of `kseg bench --json` are compared by their ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.jobs.bench import measuring
from kseg.jobs.bench.compare import compare
from kseg.jobs.cli import cli

BEFORE: dict[str, Any] = {
    "quick": True,
    "ratios": {"kafka_to_delta_vs_spark_tuned": 6.0},
    "typed": {"rows": 400_000, "ratios": {"json": {"typed_vs_ours_raw": 0.5}}},
    "matrix": [
        {"workload": "raw, zstd", "krows_per_second": {"ours": 900}, "ratio": 5.0, "cpu_ratio": 4.0},
        {"workload": "raw, wide", "krows_per_second": {"ours": 700}, "ratio": 18.0, "cpu_ratio": 9.0},
    ],
    "files": {"ratios": [{"files": "lz4, 1 MB", "java": 21.0, "java_wall": None, "alone": 2.0, "alone_least": 1.9}]},
}


def test_each_ratio_of_both_documents_is_compared_and_nothing_else() -> None:
    assert {change.figure: change.change for change in compare(BEFORE, BEFORE)} == {
        "ratios.kafka_to_delta_vs_spark_tuned": 0,
        "typed.ratios.json.typed_vs_ours_raw": 0,
        "matrix[raw, zstd].ratio": 0,
        "matrix[raw, zstd].cpu_ratio": 0,
        "matrix[raw, wide].ratio": 0,
        "matrix[raw, wide].cpu_ratio": 0,
        "files.ratios[lz4, 1 MB].java": 0,
        "files.ratios[lz4, 1 MB].alone": 0,
    }


def test_entries_are_matched_by_name_and_the_worst_change_is_first() -> None:
    now = {**BEFORE, "matrix": [{"workload": "raw, wide", "ratio": 16.0}, {"workload": "raw, zstd", "ratio": 5.5}]}
    first, *rest = compare(BEFORE, now)
    assert (first.figure, first.before, first.now, first.fell) == ("matrix[raw, wide].ratio", 18.0, 16.0, True)
    assert rest[-1].figure == "matrix[raw, zstd].ratio"
    assert not any(change.fell for change in rest)


def test_times_of_the_floor_get_worse_as_they_rise() -> None:
    now = {"files": {"ratios": [{"files": "lz4, 1 MB", "alone": 2.5, "java": 21.0}]}}
    assert [(change.figure[-5:], change.fell) for change in compare(BEFORE, now)] == [("alone", True), (".java", False)]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the benchmark finds, in place of minutes of it."""
    found: dict[str, Any] = {"ratios": {"kafka_to_delta_vs_spark_tuned": 6.0, "kafka_to_noop_vs_spark_tuned": 2.0}}
    monkeypatch.setattr(measuring, "measure", lambda *_: found)
    return found


@pytest.mark.parametrize(("now", "code"), [(5.5, 0), (5.3, 3)])
def test_the_command_fails_where_a_ratio_fell_by_more_than_a_tenth(
    tmp_path: Path, measured: dict[str, Any], now: float, code: int
) -> None:
    earlier = tmp_path / "before.json"
    earlier.write_text(json.dumps(BEFORE))
    measured["ratios"]["kafka_to_delta_vs_spark_tuned"] = now
    result = CliRunner().invoke(cli, ["bench", "--quick", "--compare", str(earlier), "--json"])
    assert result.exit_code == code, result.output
    [change] = json.loads(result.stdout)["compared"]
    assert (change["before"], change["now"], change["fell"]) == (6.0, now, code == 3)


@pytest.mark.parametrize("arguments", [["--quick", "--compare"], ["--compare", "no-such.json"]])
def test_what_cannot_be_compared_is_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(measuring, "measure", lambda *_: pytest.fail("measured"))
    assert CliRunner().invoke(cli, ["bench", *arguments]).exit_code == 2


def test_the_release_has_a_document_to_compare_with(measured: dict[str, Any]) -> None:
    result = CliRunner().invoke(cli, ["bench", "--compare", "--json"])
    assert result.exit_code in (0, 3), result.output
    assert json.loads(result.stdout)["quick"] is False
