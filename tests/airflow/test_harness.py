"""The ground that the other tests stand on: runs, waits, kills and restarts of the Airflow that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess

STEPS = """
import os
import time
from datetime import datetime, timedelta, timezone
from airflow.sdk import DAG, Asset, task
from airflow.providers.standard.sensors.filesystem import FileSensor

made = Asset("x-harness://made")

with DAG("harness_steps", schedule=None):

    @task(outlets=[made])
    def tell(**context):
        context["outlet_events"][made].extra = {"told": context["dag_run"].conf.get("word")}
        print("the word is", context["dag_run"].conf.get("word"))
        return {"word": context["dag_run"].conf.get("word")}

    tell()

with DAG("harness_after", schedule=[made]):

    @task
    def hear(triggering_asset_events=None):
        return [event.extra for events in triggering_asset_events.values() for event in events]

    hear()

with DAG("harness_waiting", schedule=None):
    FileSensor(task_id="wait", filepath=os.environ["AIRFLOW_HOME"] + "/waited-for", fs_conn_id="harness_files",
               poke_interval=1, deferrable=True)

with DAG("harness_running", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=0)}):

    @task
    def sleep(ti=None):
        time.sleep(600 if ti.try_number == 1 else 0)

    sleep()
"""

DAILY = """
from datetime import datetime, timezone
from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

with DAG("harness_daily", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
         start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=2):

    @task
    def day(data_interval_start=None, data_interval_end=None):
        return [data_interval_start.isoformat(), data_interval_end.isoformat()]

    day()
"""


@pytest.fixture
def steps(airflow: RunningAirflow) -> RunningAirflow:
    """DAGs of single steps."""
    airflow.add_dag(
        STEPS, "harness_steps.py", expect=["harness_steps", "harness_after", "harness_waiting", "harness_running"]
    )
    return airflow


def test_a_run_leaves_states_values_logs_and_an_asset_event_that_starts_another(steps: RunningAirflow) -> None:
    steps.unpause("harness_after")
    run = steps.trigger("harness_steps", conf={"word": "reed"})
    steps.wait_for_run("harness_steps", run)
    assert [task["state"] for task in steps.tasks("harness_steps", run)] == ["success"]
    assert steps.xcom("harness_steps", run, "tell") == {"word": "reed"}
    steps.wait_for_log("harness_steps", run, "tell", "the word is reed")
    [event] = steps.asset_events(dag="harness_steps", run=run)
    assert event["extra"] == {"told": "reed"}
    after = steps.wait_for_next_run("harness_after", known=[])
    steps.wait_for_run("harness_after", after)
    assert steps.xcom("harness_after", after, "hear") == [{"told": "reed"}]


def test_a_cleared_task_runs_again_and_a_marked_one_is_stopped(steps: RunningAirflow) -> None:
    run = steps.trigger("harness_steps", conf={"word": "again"})
    steps.wait_for_run("harness_steps", run)
    steps.clear("harness_steps", run, "tell")
    steps.wait_for_task("harness_steps", run, "tell", attempt=2)
    run = steps.trigger("harness_running")
    steps.wait_for_task("harness_running", run, "sleep", "running")
    steps.mark_task("harness_running", run, "sleep", "failed")
    steps.wait_for_run("harness_running", run, "failed")


def test_a_triggerer_that_is_killed_and_started_again_takes_up_what_waits(steps: RunningAirflow) -> None:
    steps.connection("harness_files", "fs", extra={"path": "/"})
    run = steps.trigger("harness_waiting")
    steps.wait_for_task("harness_waiting", run, "wait", "deferred")
    steps.kill("triggerer")
    steps.restart("triggerer")
    (steps.home / "waited-for").touch()
    steps.wait_for_run("harness_waiting", run)


def test_a_scheduler_killed_with_its_workers_is_followed_by_one_that_runs_the_task_again(steps: RunningAirflow) -> None:
    run = steps.trigger("harness_running")
    steps.wait_for_task("harness_running", run, "sleep", "running")
    steps.kill("scheduler")
    steps.restart("scheduler")
    steps.wait_for_run("harness_running", run)
    assert steps.task("harness_running", run, "sleep")["try_number"] == 2


def test_a_task_whose_process_is_killed_is_tried_again(steps: RunningAirflow) -> None:
    run = steps.trigger("harness_running")
    steps.wait_for_task("harness_running", run, "sleep", "running")
    steps.kill_task("harness_running", run, "sleep")
    steps.wait_for_run("harness_running", run)


def test_a_backfill_makes_a_run_for_each_day(airflow: RunningAirflow) -> None:
    airflow.add_dag(DAILY, "harness_daily.py", expect=["harness_daily"])
    number = airflow.backfill("harness_daily", "2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z")
    airflow.wait_for_backfill(number)
    runs = [run["dag_run_id"] for run in airflow.runs("harness_daily") if run["run_type"] == "backfill"]
    days = [airflow.xcom("harness_daily", run, "day") for run in runs]
    assert sorted(day[0][:10] for day in days) == ["2026-01-02", "2026-01-03", "2026-01-04"]


def test_a_file_that_cannot_be_imported_is_told(airflow: RunningAirflow) -> None:
    file = airflow.add_dag("from airflow.sdk import DAG\nraise ValueError('no such lake')\n", "harness_broken.py")
    errors = airflow.wait_for_import_errors()
    file.unlink()
    assert any("no such lake" in error["stack_trace"] for error in errors)
    airflow.wait_for_no_import_errors()


def test_kafka_is_there(kafka: KafkaProcess) -> None:
    topic = kafka.topic(partitions=2)
    assert kafka.produce(topic, [{"value": "a", "partition": 0}, {"value": "b", "partition": 1}]) == 2
    assert kafka.group_offsets("nobody") == {}
