"""What is set aside: where each step of a run finds its table, and what it compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.ledger.values import PlannedRange, RangeCounts, RunPlan
from kseg.etl.run.side_tables import SideTables
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.side_kinds import LETTERS, SIDE_KINDS, SideKind, side_tables_of


def job_with(*kinds: SideKind) -> Job:
    document: dict[str, Any] = {
        "version": 1,
        "name": "j",
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "source": {"topics": ["t"], "on_corruption": "quarantine" if len(kinds) > 1 else "fail"},
        "decode": {"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}},
        "sink": {"path": "/lake/t"},
        "ledger": "/lake/ledger",
    }
    for kind in kinds:
        section, key = kind.setting.split(".")
        document[section][key] = {"path": f"/lake/{key}"}
    if LETTERS in kinds:
        document["decode"]["on_error"] = "dead_letter"
    return load_job(document, env={})


def planned(**tables: str) -> RunPlan:
    ranges = (PlannedRange("t", 0, 0, 9),)
    return RunPlan("r", "incremental", "incremental", "a", 1, "", "", None, {}, ranges, {}, **tables)


@pytest.mark.parametrize("kind", SIDE_KINDS)
def test_a_run_has_the_table_of_its_plan_before_the_jobs(kind: SideKind) -> None:
    job, key = job_with(*SIDE_KINDS), kind.setting.partition(".")[2]
    assert dict(side_tables_of(job))[kind] == f"/lake/{key}", "setting is its key of the job file"
    assert kind.of_run(planned(), job) == f"/lake/{key}"
    plan = planned(**{key: "/lake/before"})
    assert kind.of_run(plan, job) == "/lake/before"
    assert plan.beside == {"/lake/before"}, "the ledger tells it from tables of rows"
    assert SideTables.of(plan, job).table(kind) == "/lake/before"


def test_a_job_that_sets_nothing_aside_has_no_such_table() -> None:
    job = job_with()
    assert list(side_tables_of(job)) == []
    assert SideTables.of(planned(), job).kinds == {}


@pytest.mark.parametrize("kind", SIDE_KINDS)
def test_its_columns_can_be_landed(kind: SideKind) -> None:
    assert kind.schema().columns.names


def test_files_of_dead_letters_have_as_many_as_were_counted() -> None:
    job, read = job_with(*SIDE_KINDS), SimpleNamespace(rows_in=1000, dead=2, dead_examples=())
    files = [WrittenFile("/lake/dead_letters", name, 1, 1) for name in ("a", "b")]
    assert LETTERS.check(job, "r", read, files) is None
    assert LETTERS.check(job, "r", read, files[:1]) == (
        "2 records were set aside in decoding, and the files of dead letters have 1"
    )


def test_only_dead_letters_are_counted_by_row() -> None:
    assert {kind: kind.rows_due(RangeCounts()) for kind in SIDE_KINDS} == dict(zip(SIDE_KINDS, (None, 0), strict=True))
