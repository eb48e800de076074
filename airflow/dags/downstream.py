"""Whenever rows have landed in the table of the job orders: a DAG that reads them from the asset event.

The event's extra names the table's version, the ranges of offsets and their counts, so that a consumer after a
landing reads exactly that, even if the table has moved on.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from kseg_airflow.assets import job_assets
from kseg_examples import ENVIRONMENT, ORDERS

with DAG(
    "kseg_downstream",
    description="After each landing of the job orders",
    doc_md=__doc__,
    schedule=job_assets(ORDERS, ENVIRONMENT),
    tags={"kseg", "example"},
):

    @task
    def read_what_landed(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """Print and return what has landed, an entry a table and version."""
        landed = []
        for events in triggering_asset_events.values():
            for event in events:
                told = event.extra["kseg"]
                for table in told["tables"]:
                    print(f"{table['rows']} rows in version {table['version']} of {table['path']}, run {told['run']}")
                    landed.append({**table, "run": told["run"], "ranges": told["ranges"]})
        return landed

    read_what_landed()
