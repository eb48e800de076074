"""Lists the APIs that this client speaks, with their versions, and those of a broker."""

from __future__ import annotations

from typing import Any

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import UnsupportedVersion
from kseg.client.protocol.api import Api
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.protocol.schema import Versions
from kseg.client.wire.broker import BrokerConnection


def list_apis(cluster: Cluster | None = None) -> dict[str, Any]:
    """The document of `kseg api list`: with a cluster also what one of its brokers offers, and its features.

    `assumed`: the broker is too old for ApiVersions, and these are the versions of `broker.version.fallback`.
    """
    rows = [_row(api) for api in API_BY_KEY.values()]
    if cluster is None:
        return {"apis": rows}
    connection = cluster.retry(cluster.any_connection)
    for row, api in zip(rows, API_BY_KEY.values(), strict=True):
        theirs = connection.versions.ranges.get(api.key)
        row["broker"] = None if theirs is None else {"lowest": theirs[0], "highest": theirs[1]}
        row["used"] = _used(connection, api, topic_ids_known=False)
        row["used_with_topic_ids"] = _used(connection, api, topic_ids_known=True)
    unknown = [
        {"key": key, "lowest": low, "highest": high}
        for key, (low, high) in sorted(connection.versions.ranges.items())
        if key not in API_BY_KEY
    ]
    return {
        "broker": connection.label,
        "assumed": connection.versions.assumed,
        "apis": rows,
        "unknown_apis": unknown,
        "features": _features(connection),
    }


def _row(api: Api[Any]) -> dict[str, Any]:
    return {
        "name": api.name,
        "key": api.key,
        "lowest": api.versions.lowest,
        "highest": api.versions.highest,
        "deprecated": span(api.deprecated),
        "flexible": span(Versions(api.flexible.lowest, min(api.flexible.highest, api.versions.highest))),
        "scope": api.scope,
        "codec_only": api.scope != "client",
    }


def span(versions: Versions) -> list[int] | None:
    """[lowest, highest]; None for an empty range."""
    return [versions.lowest, versions.highest] if versions.lowest <= versions.highest else None


def _used(connection: BrokerConnection, api: Api[Any], *, topic_ids_known: bool) -> int | None:
    if api.scope != "client":
        return None
    try:
        return connection.version_of(api.request, topic_ids_known=topic_ids_known)
    except UnsupportedVersion:
        return None


def _features(connection: BrokerConnection) -> list[dict[str, Any]]:
    """The feature levels that the broker supports, and those that the cluster has agreed on, 0 for nothing (KIP-584);
    none below 2.7."""
    offered = connection.versions
    names = sorted({*offered.supported_features, *offered.finalized_features})
    return [
        {
            "name": name,
            "supported": list(offered.supported_features[name]) if name in offered.supported_features else None,
            "finalized": offered.finalized_features.get(name, 0),
        }
        for name in names
    ]
