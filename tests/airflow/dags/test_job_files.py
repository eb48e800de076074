"""A folder of job files as DAGs: what a section says is what Airflow does, and one broken file is one fault."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("airflow.sdk")

from airflow_process import wait_for

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess

SECTION = {
    "description": "All that a section may say",
    "mode": "interval",
    "schedule": "0 6 * * 1-5",
    "timezone": "Europe/Berlin",
    "start_date": "2026-01-01T00:00:00Z",
    "max_active_runs": 3,
    "owner": "orders-team",
    "tags": ["orders"],
    "retries": 7,
    "retry_delay": "90s",
    "pool": "few_slots",
    "pool_slots": 2,
    "priority_weight": 5,
    "queue": "big",
    "verify": True,
}


def test_a_section_says_how_its_dag_runs(job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess) -> None:
    airflow.pool("few_slots", 2)
    job = job_files.add("never-read", interval={}, airflow=SECTION)
    dag = airflow.details(job)
    assert dag["description"] == SECTION["description"]
    assert dag["timetable_summary"] == "0 6 * * 1-5"
    next_run = datetime.fromisoformat(dag["next_dagrun_run_after"])
    assert (next_run.astimezone(ZoneInfo("Europe/Berlin")).hour, next_run.minute) == (6, 0)
    assert dag["max_active_runs"] == 3
    assert dag["owners"] == ["orders-team"]
    assert {tag["name"] for tag in dag["tags"]} == {"kseg", "orders"}
    assert dag["params"]["mode"]["value"] == "missing"
    tasks = airflow.dag_tasks(job)
    assert {task["task_id"]: task["downstream_task_ids"] for task in tasks} == {
        "closed": ["land"],
        "land": ["verify"],
        "verify": [],
    }
    for task in tasks:
        assert (task["owner"], task["retries"], task["pool"]) == ("orders-team", 7, "few_slots")
        assert (task["pool_slots"], task["priority_weight"], task["queue"]) == (2, 5, "big")
        assert task["retry_delay"]["seconds"] == 90


def test_a_broken_file_is_an_import_error_that_names_it_and_takes_no_other_dag_away(
    job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess
) -> None:
    sound = job_files.add("never-read")
    broken = job_files.add("never-read")
    job_files.write(broken, 'version: 1\nname: broken\nairflow: {retries: "many"}\n')
    [error] = job_files.until(airflow.import_errors, "an import error")
    assert error["filename"] == "job_file_faults.py"
    assert f"{broken}.yaml: airflow.retries: 'many' is not a whole number" in error["stack_trace"]

    job_files.until(lambda: airflow.details(broken)["is_stale"], f"the DAG of {broken} is gone")
    # A DAG is stale, too, while the file that defines it is read for longer than Airflow's threshold.
    job_files.until(lambda: not airflow.details(sound)["is_stale"], f"the DAG of {sound} is still there")
    assert not airflow.details(sound)["has_import_errors"]
    job_files.write(broken, "version: [1\n")
    job_files.until(lambda: "is not YAML" in _told(airflow), "the other fault")
    job_files.remove(broken)
    job_files.until(lambda: not airflow.import_errors(), "no import errors")


def _told(airflow: RunningAirflow) -> str:
    return "\n".join(error["stack_trace"] for error in airflow.import_errors())


def test_a_missed_deadline_is_told(job_files: Any, airflow: RunningAirflow, kafka: KafkaProcess) -> None:
    job = job_files.add(kafka.topic(), airflow={"deadline": "1s"})
    run = airflow.trigger(job)
    said = f"job {job}: run {run} of {job} has not finished 0:00:01 after it was queued"
    wait_for(lambda: said in airflow.log_file("triggerer").read_text(errors="replace"), "word of the deadline")
    airflow.wait_for_run(job, run)
