"""The ground that the other tests stand on: runs and waits of the Airflow that they share, and its Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess

STEPS = """
import time
from datetime import timedelta
from airflow.sdk import DAG, Asset, task

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

with DAG("harness_running", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=0)}):

    @task
    def sleep(ti=None):
        time.sleep(600 if ti.try_number == 1 else 0)

    sleep()
"""


@pytest.fixture
def steps(airflow: RunningAirflow) -> RunningAirflow:
    """DAGs of single steps."""
    airflow.add_dag(STEPS, "harness_steps.py", expect=["harness_steps", "harness_after", "harness_running"])
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


def test_kafka_is_there(kafka: KafkaProcess) -> None:
    topic = kafka.topic(partitions=2)
    assert kafka.produce(topic, [{"value": "a", "partition": 0}, {"value": "b", "partition": 1}]) == 2
    assert kafka.group_offsets("nobody") == {}
