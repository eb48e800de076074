"""The job file's `airflow:` and `interval:` sections: what they mean, and what is told of what is wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.config.scheduling import Airflow, AssetSchedule
from kseg.etl.errors import Diagnostic

Load = Callable[..., Job]
Faults = Callable[..., list[Diagnostic]]

FULL: dict[str, Any] = {
    "dag_id": "orders.hourly",
    "description": "Orders, hour by hour",
    "schedule": "15 * * * *",
    "timezone": "Europe/Berlin",
    "start_date": "2026-01-01T00:00:00Z",
    "end_date": "2027-01-01T00:00:00Z",
    "catchup": True,
    "max_active_runs": 4,
    "mode": "interval",
    "drain": False,
    "owner": "sales",
    "tags": ["kafka", "sales"],
    "retries": 0,
    "retry_delay": "90s",
    "pool": "kafka",
    "pool_slots": 2,
    "priority_weight": -5,
    "queue": "big",
    "deadline": "2h",
    "execution": {"submit": "spark-submit", "deferrable": False, "spark_conn_id": "spark", "kafka_conn_id": "kafka"}
    | {"submit_options": {"archives": "env.tar.gz", "conf": {"spark.driver.memory": "2g"}}, "poll_interval": "30s"},
    "verify": True,
}


def airflow(load: Load, section: dict[str, Any]) -> Airflow:
    found = load({"airflow": section}).airflow
    assert found is not None
    return found


def test_every_key_is_read(load: Load) -> None:
    section = airflow(load, FULL)
    assert set(FULL) == set(Airflow.model_fields)
    assert (section.dag_id, section.schedule, section.tags) == ("orders.hourly", "15 * * * *", ("kafka", "sales"))
    assert section.start_date == datetime(2026, 1, 1, tzinfo=UTC)
    assert (section.retry_delay, section.deadline) == (timedelta(seconds=90), timedelta(hours=2))
    assert (section.execution.submit, section.execution.spark_conn_id) == ("spark-submit", "spark")
    assert section.execution.submit_options == {"archives": "env.tar.gz", "conf": {"spark.driver.memory": "2g"}}
    assert section.execution.poll_interval == timedelta(seconds=30)


@pytest.mark.parametrize("changes", [{"airflow": FULL}, {"interval": {"idle_after": "1m"}}])
def test_neither_section_changes_what_rows_are_landed(load: Load, changes: dict[str, Any]) -> None:
    """An unfinished run goes on with another schedule, and jobs from before these sections keep their hash."""
    assert load(changes).config_hash == load().config_hash
    assert job_from_document(load(changes).pinned()) == load(changes)
    assert not {"airflow", "interval"} & set(load().pinned())


@pytest.mark.parametrize(
    ("schedule", "intervals"),
    [
        ("0 6 * * *", True),
        ("*/5 0-6,22 1 jan mon#1", True),
        ("@daily", True),
        ("1h30m", True),
        ("@once", False),
        ("@continuous", False),
        (None, False),
    ],
)
def test_schedules_in_time(load: Load, schedule: str | None, intervals: bool) -> None:
    section = airflow(load, {"schedule": schedule})
    assert (section.schedule, section.has_intervals) == (schedule, intervals)


def test_a_schedule_by_tables_names_them_as_sinks_are_named(load: Load, tmp_path: Path) -> None:
    section = airflow(load, {"schedule": {"assets": ["./lake/a", "s3://lake/b/"]}})
    assert section.schedule == AssetSchedule(assets=(f"{tmp_path}/lake/a", "s3://lake/b"))
    assert not section.has_intervals


def test_the_rules_of_intervals(load: Load) -> None:
    assert load().interval is None
    rules = load({"interval": {"allowed_lateness": "5m", "idle_after": "10m", "max_wait": "1d"}}).interval
    assert rules == IntervalRules(
        allowed_lateness=timedelta(minutes=5), idle_after=timedelta(minutes=10), max_wait=timedelta(days=1)
    )
    assert load({"interval": {}}).interval == IntervalRules()


DAILY = {"schedule": "@daily"}
CASES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"airflow/dag_id": "or ders"}, "airflow.dag_id", "is not a DAG id", "letters"),
    ({"airflow/schedule": "0 25 * * *"}, "airflow.schedule", "not a cron expression", "@daily"),
    ({"airflow/schedule": "0 0 30 2 *"}, "airflow.schedule", "ever matches a time", "cron"),
    ({"airflow/schedule": "0 0 * *"}, "airflow.schedule", "is not a schedule", "cron"),
    ({"airflow/schedule": "0 0 0 * * *"}, "airflow.schedule", "is not a schedule", "cron"),
    ({"airflow/schedule": "daily"}, "airflow.schedule", "is not a schedule", "@daily"),
    ({"airflow/schedule": "@dayly"}, "airflow.schedule", "is not a preset", "did you mean @daily?"),
    ({"airflow/schedule": "0s"}, "airflow.schedule", "is zero", "above zero"),
    ({"airflow/schedule": 5}, "airflow.schedule", "is not a schedule", "cron"),
    ({"airflow/schedule": {"assets": ["a"], "x": 1}}, "airflow.schedule.x", "unknown key", "valid keys: assets"),
    ({"airflow/schedule": {"assets": []}}, "airflow.schedule.assets", "is empty", "at least one"),
    ({"airflow/schedule": {"assets": ["a", "./a"]}}, "airflow.schedule.assets", "more than once", "once"),
    ({"airflow/timezone": "Europe/Berlim"}, "airflow.timezone", "is not a time zone", "did you mean Europe/Berlin?"),
    ({"airflow/start_date": "2026-01-01"}, "airflow.start_date", "no time zone", "with a time zone"),
    ({"airflow/catchup": True}, "airflow.catchup", "has no start date", "start_date"),
    ({"airflow/max_active_runs": 0}, "airflow.max_active_runs", "too small", "1 or more"),
    ({"airflow/max_active_runs": 2}, "airflow.max_active_runs", "has one ingest at a time", "mode: interval"),
    (
        {"airflow/drain": True, "airflow/mode": "interval", "airflow/schedule": "@daily"},
        "airflow.drain",
        "an interval is one run",
        "mode: ingest",
    ),
    ({"airflow/mode": "intervall"}, "airflow.mode", "is not", "did you mean interval?"),
    ({"airflow/mode": "interval"}, "airflow.schedule", "no data interval", "mode: ingest"),
    (
        {"airflow": {"mode": "interval", "schedule": {"assets": ["a"]}}},
        "airflow.schedule",
        "no data interval",
        "@daily",
    ),
    ({"airflow/tags": ["a", "a"]}, "airflow.tags", "names a more than once", "once"),
    ({"airflow/tags": ["x" * 101]}, "airflow.tags[0]", "longer than 100", "shorten"),
    ({"airflow/retries": -1}, "airflow.retries", "too small", "0 or more"),
    ({"airflow/retry_delay": 5}, "airflow.retry_delay", "without a unit", "30s"),
    ({"airflow/pool_slots": 2}, "airflow.pool_slots", "without a pool", "pool"),
    ({"airflow/deadline": "1ms"}, "airflow.deadline", "shorter than 1s", "1s or more"),
    ({"airflow/owner": "${OWNER}"}, "airflow.owner", "has a reference", "write the value itself"),
    ({"airflow/execution/submit": "yarn"}, "airflow.execution.submit", "is not one of", "local"),
    ({"airflow/execution/defer": True}, "airflow.execution.defer", "unknown key", "deferrable"),
    ({"airflow/execution/submit": "livy"}, "airflow.execution.submit_options", "names no `file`", "kseg_driver.py"),
    ({"airflow/execution/poll_interval": "0s"}, "airflow.execution.poll_interval", "shorter than 100ms", "100ms"),
    ({"airflow/execution/submit_options": {"conf": {}}}, "airflow.execution.submit_options", "submit is local", "livy"),
    ({"airflow/shedule": "@daily"}, "airflow.shedule", "unknown key", "did you mean schedule?"),
    ({"airflow": "@daily"}, "airflow", "is text where a mapping", "pairs"),
    ({"interval/idle_after": "5"}, "interval.idle_after", "is not a duration", "unit"),
    ({"interval/idle_aftre": "5m"}, "interval.idle_aftre", "unknown key", "did you mean idle_after?"),
    (
        {"interval": {"allowed_lateness": "1h", "idle_after": "59m"}},
        "interval.idle_after",
        "shorter than allowed_lateness, 3600s",
        "longer",
    ),
    ({"interval": {"allowed_lateness": "1h", "max_wait": "1m"}}, "interval.max_wait", "shorter than", "longer"),
]


@pytest.mark.parametrize(("changes", "path", "told", "remedy"), CASES)
def test_one_fault(faults: Faults, changes: dict[str, Any], path: str, told: str, remedy: str) -> None:
    found = faults(changes)
    assert [fault.path for fault in found] == [path]
    assert told in found[0].message
    assert found[0].remedy is not None
    assert remedy in found[0].remedy
    assert found[0].line is not None


def test_the_end_comes_after_the_start(faults: Faults) -> None:
    dates = {"start_date": "2026-01-02T00:00:00Z", "end_date": "2026-01-02T00:00:00Z"}
    assert [fault.path for fault in faults({"airflow": {**DAILY, **dates}})] == ["airflow.end_date"]


def test_all_faults_of_both_sections_come_at_once(faults: Faults) -> None:
    changes = {"airflow": {"schedule": "x", "retries": "2"}, "interval": {"max_wait": 1}, "source/topics": []}
    assert {f.path for f in faults(changes)} == {
        "airflow.schedule",
        "airflow.retries",
        "interval.max_wait",
        "source.topics",
    }
