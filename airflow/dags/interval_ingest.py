"""Hourly runs: each run lands the records of its data interval [start, end), after the interval is closed.

The boundaries of an interval are resolved to offsets once and stored in the ledger. So a run that is cleared or
repeated reads the same offsets. By default nothing is left to land then; with the parameter `mode` = replace, the rows
of these offsets are replaced. Several runs may be active at the same time and in any order (also those of Airflow's own
backfill): the group's offsets advance only as far as everything before them has landed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from kseg_airflow.operators import KsegBackfillOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor
from kseg_examples import ENVIRONMENT, ORDERS_BY_HOUR

with DAG(
    "kseg_interval_ingest",
    description="The topic orders hour by hour",
    doc_md=__doc__,
    # Not simply "@hourly": by Airflow's default, the data interval of such runs is empty.
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={"mode": Param("missing", enum=["missing", "replace"], description="replace: land the same offsets again")},
    tags={"kseg", "example"},
):
    closed = KsegIntervalClosedSensor(task_id="closed", job_file=ORDERS_BY_HOUR, env=ENVIRONMENT, deferrable=True)
    land = KsegBackfillOperator(
        task_id="land",
        job_file=ORDERS_BY_HOUR,
        mode="{{ params.mode }}",
        commit_offsets=True,
        env=ENVIRONMENT,
        deferrable=True,
    )
    closed >> land
