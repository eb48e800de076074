"""Clusters of several releases, and every version of an API that such a cluster speaks, one by one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client import Cluster
from kseg.client.errors import UnknownTopic
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"admin-{uuid.uuid4()}"


@pytest.fixture(params=["4.3.1", "3.9.2"])
def any_cluster(
    request: pytest.FixtureRequest, connect: Callable[..., Cluster], kafka: Any, kafka_release: Callable[[str], Any]
) -> Cluster:
    """A node of the newest release, and one of the last that still spoke the first versions."""
    asked = kafka if request.param == kafka.version else kafka_release(request.param)
    return connect(asked.bootstrap_servers)


@pytest.fixture
def three(kafka3: Any, connect: Callable[..., Cluster]) -> Cluster:
    """A cluster on three real brokers."""
    return connect(kafka3.bootstrap_servers)


@pytest.fixture
def each_version(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[int]]:
    """`for version in each_version(cluster, XRequest)`: meanwhile every request of that kind goes out in that version.

    From the lowest to the highest version that client and cluster have in common.
    """
    pinned: dict[int, int] = {}
    negotiated = BrokerConnection.version_of

    def version_of(self: BrokerConnection, request: Any, **given: Any) -> int:
        return pinned[request.KEY] if request.KEY in pinned else negotiated(self, request, **given)

    monkeypatch.setattr(BrokerConnection, "version_of", version_of)

    def each(cluster: Cluster, request: Any) -> Iterator[int]:
        theirs = cluster.any_connection(Deadline.after(30)).versions.ranges[request.KEY]
        ours = API_BY_KEY[request.KEY].versions
        versions = range(max(ours.lowest, theirs[0]), min(ours.highest, theirs[1]) + 1)
        assert versions
        try:
            for version in versions:
                pinned[request.KEY] = version
                yield version
        finally:
            pinned.pop(request.KEY, None)

    return each


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """`until(lambda: …)` calls until the answer is true, for what brokers hear of a moment later; gives the answer.

    Which broker of a cluster answers is chance: one that has not even heard of a topic yet is asked again, too.
    """

    def wait(condition: Callable[[], Any], *, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except UnknownTopic:
                pass
            assert time.monotonic() < deadline, "never came true"
            time.sleep(0.1)

    return wait
