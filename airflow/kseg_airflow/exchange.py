"""Writes the result of a finished driver to Airflow: XComs and asset events."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kseg_airflow import assets
from kseg_airflow.compat import conf
from kseg_airflow.links import LOG_KEY, REPORT_KEY, TABLES_KEY
from kseg_airflow.run_folder import default_run_dir

_LARGEST_XCOM: Final = 256 * 1024


def publish(context: Any, task: Any, report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()) -> None:
    """XComs for the links, and events for the tables that were landed in.

    report: a run's document. earlier: those of the task's earlier tries that have no event yet, since a task has one
    event for each table: they are part of this run's (`earlier` in its extra).
    """
    ti = context["ti"]
    url, run_dir = report_url(task.report_url), task.run_dir or default_run_dir()
    for key, file in ((REPORT_KEY, report.get("report")), (LOG_KEY, task.log_file)):
        place = place_of(file, url, run_dir)
        if place is not None:
            task.left[key] = place
    tables = [table for table in report.get("tables") or [] if table.get("version") is not None]
    if tables:
        task.left[TABLES_KEY] = [{"path": t.get("path"), "version": t.get("version")} for t in tables[:100]]
    for key, value in task.left.items():
        ti.xcom_push(key=key, value=value)
    if not getattr(task, "emit_assets", False):
        return
    interval = task.interval_of_run()
    extra = assets.event_extra(report, interval)
    if earlier:
        extra[assets.EXTRA_KEY]["earlier"] = [assets.event_extra(one, interval)[assets.EXTRA_KEY] for one in earlier]
    landed = dict.fromkeys(path for one in (report, *earlier) for path in assets.landed_tables(one))
    uris = assets.emit(context, task, list(landed), extra)
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


def place_of(file: Any, url: str | None, run_dir: str) -> str | None:
    """The address of a file for a browser: an address as it is, below `url` what lies in the run folder, else as a
    file.

    url: under which run_dir is served; of what lies elsewhere it has the file's name.
    """
    if not isinstance(file, str) or not file:
        return None
    if "://" in file:
        return file
    path = Path(file).absolute()
    if not url:
        return path.as_uri()
    root = Path(run_dir).expanduser().absolute()
    below = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{url.rstrip('/')}/{quote(below)}"


def report_url(given: str | None) -> str | None:
    """The operator's, else KSEG_REPORT_URL, or `[kseg] report_url`."""
    return given or os.environ.get("KSEG_REPORT_URL") or conf.get("kseg", "report_url", fallback="") or None
