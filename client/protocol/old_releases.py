"""API versions of releases before 0.10, whose brokers do not report the versions that they support.

Source: Kafka's own protocol table of each release.
"""

from __future__ import annotations

from typing import Final

#: Versions that releases without ApiVersions support, by API name; each table adds to the one before it.
_VERSIONS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "0.8.0": {
        "Produce": (0, 0),
        "Fetch": (0, 0),
        "ListOffsets": (0, 0),
        "Metadata": (0, 0),
        "LeaderAndIsr": (0, 0),
        "StopReplica": (0, 0),
    },
    "0.8.1": {
        "UpdateMetadata": (0, 0),
        "ControlledShutdown": (0, 0),
        "OffsetCommit": (0, 0),
        "OffsetFetch": (0, 0),
    },
    "0.8.2": {"OffsetCommit": (0, 1), "OffsetFetch": (0, 1), "FindCoordinator": (0, 0)},
    "0.9.0": {
        "Produce": (0, 1),
        "Fetch": (0, 1),
        "UpdateMetadata": (0, 1),
        "ControlledShutdown": (0, 1),
        "OffsetCommit": (0, 2),
        "JoinGroup": (0, 0),
        "Heartbeat": (0, 0),
        "LeaveGroup": (0, 0),
        "SyncGroup": (0, 0),
        "DescribeGroups": (0, 0),
        "ListGroups": (0, 0),
    },
}


def parse_release(text: str) -> str:
    """The table's name for a release such as "0.9.0.1" or "0.9". Raises ValueError, which lists the tables."""
    numbers = text.split(".")
    for release in _VERSIONS:
        known = release.split(".")
        if numbers[: len(known)] == known or (len(numbers) == 2 and [*numbers, "0"] == known):
            return release
    tables = ", ".join(_VERSIONS)
    raise ValueError(f"{text!r} is not one of {tables}; brokers from 0.10 on report their versions themselves")


def versions_before_negotiation(release: str) -> dict[int, tuple[int, int]]:
    """The versions (lowest, highest) that brokers of a release before 0.10 support, by API key.

    release: a name that `parse_release` returned. Raises ValueError for another one.
    """
    from kseg.client.protocol.registry import API_BY_NAME  # imports all messages, so not at the module's top

    ranges: dict[int, tuple[int, int]] = {}
    for table, apis in _VERSIONS.items():
        ranges |= {API_BY_NAME[name].key: versions for name, versions in apis.items() if name in API_BY_NAME}
        if table == release:
            return ranges
    raise ValueError(f"no table for release {release!r}")
