"""What a finished driver leaves in Airflow: XComs and asset events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kseg_airflow import assets
from kseg_airflow.links import REPORT_KEY, TABLES_KEY

_LARGEST_XCOM: Final = 256 * 1024


def publish(context: Any, task: Any, report: Mapping[str, Any]) -> None:
    """XComs for the links, and events for the tables that were landed in. report: a run's document."""
    ti = context["ti"]
    place = report_place(report.get("report"), task.report_url)
    if place is not None:
        task.left[REPORT_KEY] = place
    tables = [table for table in report.get("tables") or [] if table.get("version") is not None]
    if tables:
        task.left[TABLES_KEY] = [{"path": t.get("path"), "version": t.get("version")} for t in tables[:100]]
    for key, value in task.left.items():
        ti.xcom_push(key=key, value=value)
    if not getattr(task, "emit_assets", False):
        return
    uris = assets.emit(context, task, report, assets.event_extra(report, task.interval_of_run()))
    for uri in uris:
        task.log.info("Landed in %s", uri)


def for_xcom(report: Mapping[str, Any]) -> dict[str, Any]:
    """The document as the task's return value; its long lists cut where it would not fit into a database's row."""
    document = json.loads(json.dumps(report, default=str))
    if len(json.dumps(document)) <= _LARGEST_XCOM:
        return dict(document)
    left_out = {}
    for key, value in document.items():
        if isinstance(value, list) and len(value) > 100:
            left_out[key] = len(value) - 100
            document[key] = value[:100]
    return {**document, "left_out": left_out}


def report_place(report: Any, url: str | None) -> str | None:
    """Where a browser finds the run's report: below the given address, or as a file."""
    if not isinstance(report, str) or not report:
        return None
    if url:
        return f"{url.rstrip('/')}/{Path(report).name}"
    return report if "://" in report else Path(report).absolute().as_uri()
