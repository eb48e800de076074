"""The job file's `reporting:` section: what a run leaves behind for people and for monitoring, besides its rows.

Nothing here decides rows, so nothing of it is in the configuration's hash.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator

from kseg.etl.config.paths import normal_path, scheme_of
from kseg.etl.config.values import Duration, PlainPath, Section, Text, at_least, fault


def gateway_address(url: Any) -> str:
    """Checks a gateway's address: http or https with a host, and no credentials. Raises a fault."""
    parts = urlsplit(str(url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise fault("is not the address of a Pushgateway", "write http://host:9091, or https://…")
    if parts.username or parts.password:
        raise fault(
            "has credentials, and this value appears in output",
            "set KSEG_PUSH_GATEWAY_USER and KSEG_PUSH_GATEWAY_PASSWORD in the environment",
        )
    return str(url).rstrip("/")


def local_file(path: Any) -> str:
    """A path of this machine, from a path or a file URL. Raises a fault."""
    if scheme_of(str(path)) != "file":
        raise fault(
            "is a URL, and metrics are written to a local file",
            "give the folder of node_exporter's textfile collector on this machine, or use push_gateway",
        )
    return normal_path(str(path), Path.cwd())


class OpenLineage(Section):
    """Lineage events. Where they go is the official client's own configuration (`OPENLINEAGE_URL`, openlineage.yml).

    enabled: None sends them where that client is configured. timeout: the longest that all of a run's events may
    hold it up.
    """

    enabled: bool | None = None
    namespace: Text | None = None
    timeout: Annotated[Duration, at_least(timedelta(milliseconds=100))] = timedelta(seconds=5)


class Reporting(Section):
    """What a run leaves behind. report: a file, or a folder for a page a run. metrics_file: for node_exporter.

    freshness: how old the oldest record that has not landed may be; where it is set, runs observe that when they end.
    """

    report: PlainPath | None = None
    metrics_file: Annotated[PlainPath, AfterValidator(local_file)] | None = None
    push_gateway: Annotated[Text, AfterValidator(gateway_address)] | None = None
    openlineage: OpenLineage | None = None
    freshness: Annotated[Duration, at_least(timedelta(seconds=1))] | None = None
