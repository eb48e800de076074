"""Every morning: do asset events, ledger, tables and the group's offsets still agree?

Each landing has an event: ranges, counts, the table's version. A table that was restored, a group's offset that
somebody moved, a ledger from a backup: the task fails and names what differs, partition by partition.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from kseg_airflow.audit import KsegAuditOperator
from kseg_examples import ENVIRONMENT, ORDERS, ORDERS_BY_HOUR

with DAG(
    "kseg_drift_check",
    description="Asset events against ledger, tables and group offsets",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 6 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags={"kseg", "example"},
):
    for name, job_file in {"orders": ORDERS, "orders_by_hour": ORDERS_BY_HOUR}.items():
        KsegAuditOperator(task_id=f"audit_{name}", job_file=job_file, env=ENVIRONMENT)
