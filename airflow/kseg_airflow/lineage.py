"""The datasets that a task reads and writes, by OpenLineage's names.

    kafka://broker:9092   orders            a topic, by the first broker of the job file
    file                  /lake/orders      a table
    s3://lake             orders

https://openlineage.io/docs/spec/naming/
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from kseg_airflow.assets import job_tables, landed_tables, read_job, table_uri


def of_report(report: Mapping[str, Any], job_file: str | None) -> Any:
    """The lineage of a run."""
    topics = dict.fromkeys(str(one["topic"]) for one in report.get("ranges") or [])
    return _lineage(job_file, topics, landed_tables(report))


def of_job(job_file: str | None, env: Mapping[str, str] | None) -> Any:
    """The lineage of a job that has not run, as far as its file names topics and tables."""
    if job_file is None:
        return _lineage(None, (), ())
    source = read_job(job_file).get("source") or {}
    named = source.get("assign") or source.get("topics") or () if isinstance(source, Mapping) else ()
    tables, _ = job_tables(job_file, env if isinstance(env, Mapping) else None)
    return _lineage(job_file, map(str, named), tables)


def table_names(path: str) -> tuple[str, str]:
    """Namespace and name of a table."""
    uri = urlsplit(table_uri(path))
    if uri.scheme == "file":
        return "file", path.rstrip("/")
    if uri.scheme == "x-delta":
        return "x-delta", uri.path
    return f"{uri.scheme}://{uri.netloc}", uri.path.strip("/")


def _lineage(job_file: str | None, topics: Iterable[str], tables: Iterable[str]) -> Any:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    broker = _broker(job_file)
    return OperatorLineage(
        inputs=[Dataset(namespace=f"kafka://{broker}", name=topic) for topic in topics],
        outputs=[Dataset(namespace=namespace, name=name) for namespace, name in map(table_names, tables)],
    )


def _broker(job_file: str | None) -> str:
    kafka = (read_job(job_file) if job_file is not None else {}).get("kafka")
    servers = kafka.get("bootstrap.servers") if isinstance(kafka, Mapping) else None
    return os.path.expandvars(str(servers or "unknown")).partition(",")[0].strip()
