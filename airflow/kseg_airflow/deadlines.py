"""What is said when a run has missed its deadline (`airflow.deadline` of a job file).

The triggerer calls it; Airflow's own list of missed deadlines (page of the run) does not depend on it. For other
notifications, give a DAG a deadline with a callback of your own.
"""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)


async def tell(job: str, deadline: str, context: dict[str, Any] | None = None) -> str:
    """Log, as an error, which run is late; returns what was said."""
    run = (context or {}).get("dag_run") or {}
    said = f"job {job}: run {run.get('dag_run_id')} of {run.get('dag_id')} is not done {deadline} after it was queued"
    log.error(said)
    return said
