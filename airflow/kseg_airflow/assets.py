"""Delta tables as Airflow's assets: their URIs, the ones that a job file names, and the content of a landing's event.

/lake/orders           file:///lake/orders
s3://lake/orders       s3://lake/orders
main.raw.orders        x-delta:main.raw.orders      (a table by its name in a catalog)
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from yaml import YAMLError

from kseg_airflow.compat import Asset, AssetAlias
from kseg_airflow.job_file import is_url, normal_place, read_document

log = logging.getLogger(__name__)

EXTRA_KEY: Final = "kseg"
EXTRA_VERSION: Final = 1

_TOPIC: Final = "{topic}"
# `$${` is a plain `${` to kseg, so what follows it is no reference.
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_EXTRA_RANGES: Final = 2_000


def table_uri(path: str) -> str:
    """The URI of a table. path: an absolute path, a URL, or a name in a catalog.

    Raises ValueError for a URL without a bucket, with a password, or of another host's file.
    """
    if not (is_url(path) or path.startswith("/")):
        return f"x-delta:{path}"
    place = normal_place(path, Path("/"))
    if not place.startswith("/"):
        return place
    return f"file://{quote(unquote(place) if is_url(path) else place, safe='/')}"


def table_asset(path: str) -> Asset:
    """The asset of a table; see `table_uri`. DAGs downstream are scheduled on it."""
    return Asset(uri=table_uri(path))


def job_alias(name: str) -> AssetAlias:
    """The asset for a job's tables where the job file does not name them all (a topic pattern with `{topic}`)."""
    return AssetAlias(f"kseg:{name}")


def job_assets(job_file: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> list[Asset]:
    """The assets of all tables that a job file names; a DAG downstream of a job is scheduled on them."""
    tables, _ = job_tables(job_file, env)
    return [table_asset(table) for table in tables]


def job_outlets(job_file: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> list[Any]:
    """The tables that a task of this job may land in, and the job's alias where they are not all known.

    Nothing where the file cannot be read: the run itself reports what is wrong with it.
    """
    tables, complete = job_tables(job_file, env)
    outlets: list[Any] = [table_asset(table) for table in tables]
    if not complete:
        outlets.append(job_alias(_job_name(job_file)))
    return outlets


def job_tables(job_file: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> tuple[list[str], bool]:
    """The tables that a job file names, and whether these are all that it may land in.

    env: for references, over the process's own.
    """
    document = read_job(job_file)
    # What a template gives is not known yet.
    known = {name: text for name, text in {**os.environ, **(env or {})}.items() if _is_plain(text)}
    folder = Path(job_file).absolute().parent
    sink, source = _section(document, "sink"), _section(document, "source")
    targets = _section(sink, "routes") or {"*": sink}
    named = source.get("assign") or source.get("topics") or []
    topics = [str(topic) for topic in named] if isinstance(named, list | tuple | Mapping) else []
    tables: list[str] = []
    complete = bool(document)
    for topic, target in targets.items():
        if not isinstance(target, Mapping):
            continue
        place = str(target.get("path") or target.get("table") or "")
        is_path = bool(target.get("path"))
        names: list[str | None] = [str(topic)] if topic != "*" else [*topics] or [None]
        for name in names:
            filled = place if name is None else place.replace(_TOPIC, name)
            table = _filled(filled, known)
            if table is not None and is_path:
                table = place_of(table, folder)
            if not table or _TOPIC in table:
                complete = False
                continue
            tables.append(table)
    return list(dict.fromkeys(tables)), complete


def read_job(job_file: str | os.PathLike[str]) -> dict[str, Any]:
    """A job file's plain values, without any check; empty where it cannot be read. `kseg check` finds its faults."""
    try:
        document = read_document(job_file)
    except (OSError, ValueError, YAMLError):
        return {}
    return document if isinstance(document, dict) else {}


def event_extra(report: Mapping[str, Any], interval: Iterable[str] | None = None) -> dict[str, Any]:
    """The content of a landing's asset event, from the run's report; of a drain, which is the sum of several runs, with
    their ids (`runs`).

    Ranges beyond two thousand are left out and counted (`ranges_left_out`): events are in Airflow's database, and
    the ledger has them all.
    """
    ranges = [{key: r[key] for key in ("topic", "partition", "start", "end")} for r in report.get("ranges") or []]
    group = report.get("group")
    told: dict[str, Any] = {
        "version": EXTRA_VERSION,
        "job": report.get("job"),
        "run": report.get("run"),
        "mode": report.get("mode"),
        "interval": list(interval) if interval else None,
        "ranges": ranges[:_EXTRA_RANGES],
        "counts": report.get("counts") or {},
        "tables": [{key: t.get(key) for key in ("path", "version", "rows")} for t in report.get("tables") or []],
        "group": {"group": group["group"], "offsets": group["offsets"]} if group else None,
        "report": report.get("report"),
    }
    if len(runs := runs_of(report)) > 1:
        told["runs"] = runs
    if len(ranges) > _EXTRA_RANGES:
        told["ranges_left_out"] = len(ranges) - _EXTRA_RANGES
    return {EXTRA_KEY: told}


def runs_of(report: Mapping[str, Any]) -> list[str]:
    """The ids of the runs that a report is of: one, those of a drain, or none."""
    of_drain = [str(run["run"]) for run in report.get("runs") or [] if run.get("run")]
    return of_drain or ([str(report["run"])] if report.get("run") else [])


def landed_tables(report: Mapping[str, Any]) -> list[str]:
    """The tables that a run has committed to; none where there was nothing to do."""
    if report.get("status") != "done":
        return []
    return [str(table["path"]) for table in report.get("tables") or [] if table.get("version") is not None]


def emit(context: Any, task: Any, tables: Sequence[str], extra: dict[str, Any]) -> list[str]:
    """Set the outlet events of the task to a landing in these tables and nothing else. Returns the tables' URIs.

    Airflow makes an event for every outlet of a task that succeeds. So outlets of ours into which nothing was landed
    leave the task's list; outlets that are not tables of the job stay as they are. A table that is no outlet has its
    event by the task's aliases; without one there is a warning.
    """
    landed = list(dict.fromkeys(str(table_asset(path).uri) for path in tables))
    ours = {asset.uri for asset in getattr(task, "kseg_outlets", []) if isinstance(asset, Asset)}
    task.outlets = [o for o in task.outlets if not (isinstance(o, Asset) and o.uri in ours.difference(landed))]
    events = context["outlet_events"]
    static = {outlet.uri: outlet for outlet in task.outlets if isinstance(outlet, Asset)}
    aliases = [outlet for outlet in task.outlets if isinstance(outlet, AssetAlias)]
    for uri in landed:
        if uri in static:
            events[static[uri]].extra = extra
            continue
        for alias in aliases:
            events[alias].add(Asset(uri=uri), extra=extra)
        if not aliases:
            log.warning("No asset event tells of %s: it is no outlet of the task, and the task has no alias", uri)
    return landed


def _job_name(job_file: str | os.PathLike[str]) -> str:
    return str(read_job(job_file).get("name") or Path(job_file).stem)


def _section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and "{{" not in text and "{%" not in text


def _filled(text: str, env: Mapping[str, str]) -> str | None:
    """References to the environment filled in; None where one leads nowhere."""
    missing = [name for name in _REFERENCE.findall(text) if name and name not in env]
    return None if missing else _REFERENCE.sub(lambda match: env[match[1]] if match[1] else "${", text)


def place_of(path: str, folder: Path) -> str | None:
    """A table's place as a run's report names it; None for what `kseg` refuses. folder: where relative paths begin."""
    try:
        return normal_place(path, folder)
    except ValueError:
        return None
