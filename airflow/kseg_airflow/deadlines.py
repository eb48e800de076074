"""The callback for a run that has missed its deadline (`airflow.deadline` of a job file): it logs an error.

The triggerer calls it. Airflow's own list of missed deadlines, on the page of the run, does not depend on it. For other
notifications, give the DAG a deadline with your own callback.
"""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)


async def tell(job: str, deadline: str, context: dict[str, Any] | None = None) -> str:
    """Log an error that names the late run. Returns the message."""
    run = (context or {}).get("dag_run") or {}
    said = (
        f"job {job}: run {run.get('dag_run_id')} of {run.get('dag_id')} has not finished {deadline} after it was queued"
    )
    log.error(said)
    return said
