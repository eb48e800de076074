"""Every Sunday: keep tables and ledger small. OPTIMIZE joins small files, VACUUM removes files that no version of the
last week needs, and old events leave the ledger, whose summaries stay.

Rows, and what `kseg` remembers of them, stay as they are; ingests may run meanwhile.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from kseg_airflow.operators import KsegCommandOperator
from kseg_examples import ENVIRONMENT, ORDERS, ORDERS_BY_HOUR

with DAG(
    "kseg_table_maintenance",
    description="OPTIMIZE, VACUUM and the ledger's upkeep",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 3 * * 0", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    tags={"kseg", "example"},
):
    for name, job_file in {"orders": ORDERS, "orders_by_hour": ORDERS_BY_HOUR}.items():
        KsegCommandOperator(
            task_id=f"maintain_{name}",
            command="maintain",
            job_file=job_file,
            options={"optimize": True, "vacuum": "7d", "ledger": True},
            env=ENVIRONMENT,
            deferrable=True,
        )
