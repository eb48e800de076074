"""Every quarter of an hour: land what is new in the topic, exactly once, then commit the group's offsets.

A run that was killed is taken up by the next try, and a run that finds nothing new is green and changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from kseg_airflow.operators import KsegIngestOperator
from kseg_examples import ENVIRONMENT, ORDERS

with DAG(
    "kseg_scheduled_ingest",
    description="What is new in the topic orders, every quarter of an hour",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # one job's ingests come one after the other anyway
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    tags={"kseg", "example"},
):
    KsegIngestOperator(task_id="ingest", job_file=ORDERS, env=ENVIRONMENT, deferrable=True)
