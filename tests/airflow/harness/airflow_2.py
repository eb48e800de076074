"""The newest Airflow 2 in the same harness: all that differs from Airflow 3 in processes, settings and REST API.

What tests ask of a running Airflow (`airflow_rest.RunningAirflow`) means the same; what Airflow 2 does not have
(backfills by REST, asset aliases) is not translated.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from airflow_process import SETTINGS
from airflow_rest import Json, RunningAirflow

_NOT_IN_2 = {
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS",
    "API__EXPOSE_CONFIG",
    *(name for name in SETTINGS if name.startswith(("DAG_PROCESSOR__", "WORKERS__", "SCHEDULER__TASK_INSTANCE_"))),
}

# Whoever can reach the loopback may do everything: the REST API has no other way without passwords.
_WEB_SERVER = "AUTH_ROLE_PUBLIC = 'Admin'\nWTF_CSRF_ENABLED = False\n"


class RunningAirflow2(RunningAirflow):
    """Scheduler (which reads DAG files itself), triggerer and web server; REST API v1."""

    parts: ClassVar[dict[str, list[str]]] = {
        "webserver": ["--workers", "1"],
        "scheduler": ["--skip-serve-logs"],
        "triggerer": ["--skip-serve-logs"],
    }
    settings: ClassVar[dict[str, str]] = {key: value for key, value in SETTINGS.items() if key not in _NOT_IN_2} | {
        "API__AUTH_BACKENDS": "airflow.api.auth.backend.default",
        "METRICS__TIMER_UNIT_CONSISTENCY": "True",
        "CORE__DAG_FILE_PROCESSOR_TIMEOUT": "400",
        "SCHEDULER__DAG_DIR_LIST_INTERVAL": "1",
        "SCHEDULER__MIN_FILE_PROCESS_INTERVAL": "600",
        "SCHEDULER__LOCAL_TASK_JOB_HEARTBEAT_SEC": "2",
        "SCHEDULER__SCHEDULER_ZOMBIE_TASK_THRESHOLD": "40",
        "SCHEDULER__ZOMBIE_DETECTION_INTERVAL": "2",
    }
    health = "api/v1/health"
    api = "api/v1"

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environment)
        config = home / "webserver_config.py"
        config.write_text(_WEB_SERVER)
        self.environment |= {
            "AIRFLOW__WEBSERVER__WEB_SERVER_PORT": str(self.port),
            "AIRFLOW__WEBSERVER__WEB_SERVER_HOST": "127.0.0.1",
            "AIRFLOW__WEBSERVER__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__WEBSERVER__CONFIG_FILE": str(config),
            # Airflow 2 wants PostgreSQL or MySQL for more than one task at a time; SQLite does where whoever finds it
            # locked waits.
            "_AIRFLOW__SKIP_DATABASE_EXECUTOR_COMPATIBILITY_CHECK": "1",
        }

    def trigger(
        self,
        dag: str,
        *,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | str | None = None,
        interval: tuple[datetime | str, datetime | str] | None = None,
        run_id: str | None = None,
    ) -> str:
        # A null date is no date there.
        if logical_date is None and interval is not None:
            logical_date = interval[0]
        return super().trigger(dag, conf=conf, logical_date=logical_date, interval=interval, run_id=run_id)

    def runs(self, dag: str) -> list[Json]:
        return self._all(f"dags/{dag}/dagRuns", "dag_runs", order_by="id")

    def mark_task(self, dag: str, run: str, task: str, state: str = "failed") -> None:
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        self._ask("PATCH", path, {"dry_run": False, "new_state": state})

    def links(self, dag: str, run: str, task: str) -> dict[str, str | None]:
        return self._ask("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/links")

    def asset_events(
        self, *, dag: str | None = None, run: str | None = None, asset_id: int | None = None
    ) -> list[Json]:
        """Dataset events, under the names that Airflow 3 gives them."""
        asked = {"source_dag_id": dag, "source_run_id": run, "dataset_id": asset_id, "order_by": "timestamp"}
        known = {key: value for key, value in asked.items() if value is not None}
        events = self._all("datasets/events", "dataset_events", **known)
        return [event | {"uri": event["dataset_uri"], "asset_id": event["dataset_id"]} for event in events]

    def assets(self) -> list[Json]:
        return self._all("datasets", "datasets")

    def _ask(
        self, method: str, path: str, body: Json | None = None, *, accept: tuple[int, ...] = (), **asked: Any
    ) -> Json:
        known = None if body is None else {key: value for key, value in body.items() if value is not None}
        return super()._ask(method, path, known, accept=accept, **asked)
