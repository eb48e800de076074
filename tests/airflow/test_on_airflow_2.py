"""Airflow 2.11, for real: its scheduler, triggerer and web server run DAGs of these operators and sensors.

What becomes of drivers when a person or a crash ends their task is shown by kseg_airflow/test_running.py, there too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kseg_airflow.assets import table_uri
from landed import consume, once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 1, tzinfo=UTC)

JOB = """
version: 1
name: on-two
kafka: {{bootstrap.servers: "{servers}"}}
source: {{topics: [{topic}]}}
sink: {{path: ./table}}
ledger: ./_ledger
group: on-two
spark: {{master: "local[1]"}}
"""

DAGS = """
from datetime import datetime, timedelta, timezone

from airflow import DAG
from airflow.decorators import task
from airflow.timetables.interval import CronDataIntervalTimetable

from kseg_airflow.assets import job_assets
from kseg_airflow.operators import KsegBackfillOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor

JOB = {job!r}
START = datetime(2026, 3, 1, tzinfo=timezone.utc)

with DAG(
    "two_by_hour", schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"), start_date=START,
    end_date=START + timedelta(hours=1), catchup=True, max_active_runs=1,
):
    closed = KsegIntervalClosedSensor(task_id="closed", job_file=JOB, deferrable=True)
    land = KsegBackfillOperator(
        task_id="land", job_file=JOB, commit_offsets=True, deferrable=True, run_dir={run_dir!r}, poll_interval=0.5
    )
    closed >> land

with DAG("two_downstream", schedule=job_assets(JOB), start_date=START):

    @task
    def what_landed(triggering_dataset_events=None):
        events = [event for found in triggering_dataset_events.values() for event in found]
        return [event.extra["kseg"]["counts"]["records"] for event in events]

    what_landed()
"""


def test_intervals_are_landed_by_the_scheduler_and_their_datasets_start_a_dag_downstream(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, lake: Path
) -> None:
    topic = kafka.topic(config={"retention.ms": "-1"})
    times = [START + HOUR * n / 2 for n in range(4)] + [START + 2 * HOUR]  # the last one closes
    kafka.produce(topic, [{"value": f"v{n}", "timestamp": int(t.timestamp() * 1000)} for n, t in enumerate(times)])
    job = lake / "job.yaml"
    job.write_text(JOB.format(servers=kafka.bootstrap_servers, topic=topic))
    text = DAGS.format(job=str(job), run_dir=str(lake / "runs"))
    airflow.add_dag(text, "on_two.py", expect=["two_by_hour", "two_downstream"])
    airflow.unpause("two_downstream")
    airflow.unpause("two_by_hour")

    runs: list[str] = []
    for _ in range(2):
        runs.append(airflow.wait_for_next_run("two_by_hour", runs, timeout=300))
        airflow.wait_for_run("two_by_hour", runs[-1], timeout=300)
    landed = once({address for address, time in consume(kafka, topic).items() if address[2] < 4})
    assert read_table(kseg, lake / "table").addresses == landed
    assert kafka.group_offsets("on-two") == {(topic, 0): 4}
    assert "is closed" in airflow.log("two_by_hour", runs[0], "closed")

    events = airflow.asset_events(dag="two_by_hour")
    assert [event["uri"] for event in events] == [table_uri(str(lake / "table"))] * 2
    told = [event["extra"]["kseg"] for event in events]
    assert [(one["interval"][0], one["counts"]["records"]) for one in told] == [
        (START.isoformat(), 2),
        ((START + HOUR).isoformat(), 2),
    ]
    downstream: list[str] = []
    heard: list[int] = []
    while len(heard) < 2:  # one run for both events, or a run for each
        downstream.append(airflow.wait_for_next_run("two_downstream", downstream))
        airflow.wait_for_run("two_downstream", downstream[-1])
        heard += airflow.xcom("two_downstream", downstream[-1], "what_landed")
    assert heard == [2, 2]

    # The same interval once more changes nothing.
    airflow.clear("two_by_hour", runs[0])
    airflow.wait_for_run("two_by_hour", runs[0], timeout=300)
    assert read_table(kseg, lake / "table").addresses == landed
    assert len(airflow.asset_events(dag="two_by_hour")) == 2
    status = kseg.status(job)
    assert (status["lag"], status["leases"]) == (1, [])
