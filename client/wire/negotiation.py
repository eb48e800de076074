"""Which versions of which APIs a broker speaks: asked with ApiVersions (18) on every connection, or assumed.

What a broker answers holds for that one connection: after a reconnect the process behind the address may be another
release. ApiVersions is the first request on a connection, after TLS and before SASL, and needs no login.

How asking fails, by release:

    from 2.4 on  a version that is too high is answered with code 35, in version 0, naming what it speaks of ApiVersions
    0.10 to 2.3  with code 35, in version 0, and an empty list: version 0 is the one that each of them has
    0.9          neither an answer nor a closed connection: nothing ever comes
    before that  the connection is closed

A broker of the last two is spoken to only if `broker.version.fallback` names its release, which selects a table of
what it speaks. The release must not be guessed: a 0.9 broker reads a request of an unknown version as one that it
knows, and answers something else.

Sources: KIP-35, KIP-511, and for the table Kafka's own of each release, tried on a live 0.9.0.1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kseg.client.cluster.retry import Deadline
from kseg.client.errors import BrokerUnavailable, KafkaError, ProtocolFault, RequestTimedOut, error_from_code
from kseg.client.protocol.api import api_of
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.wire.version import VERSION

DISTRIBUTION: Final = "kafka-segment-etl"
FALLBACK_PROPERTY: Final = "broker.version.fallback"

_REMEMBERED_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Versions:
    """What one connection's broker speaks: (lowest, highest) by API key, ours or not, and its features by name.

    `finalized_features` are the cluster's levels, `supported_features` what this broker could do (lowest, highest).
    `assumed`: the broker did not answer, these are the versions of its release.
    """

    ranges: dict[int, tuple[int, int]]
    finalized_features: dict[str, int]
    supported_features: dict[str, tuple[int, int]] = field(default_factory=dict)
    assumed: bool = False

    def has(self, key: int, version: int) -> bool:
        """Whether a request of this API and version may be sent: ApiVersions always, that is how the rest is learnt."""
        lowest, highest = self.ranges.get(key, (0, -1))
        return lowest <= version <= highest or key == ApiVersionsRequest.KEY


class Asker(Protocol):
    """The part of a connection that negotiation needs."""

    label: str

    def call(self, request: Any, version: int, *, deadline: Deadline) -> Any: ...


def negotiate_versions(connection: Asker, deadline: Deadline) -> Versions:
    """Request a broker's versions, in the highest version of ApiVersions that both have.

    Raises RequestTimedOut or BrokerUnavailable where no answer comes, with a hint at what never answers;
    ProtocolFault, and the error of the response's code.
    """
    api = api_of(ApiVersionsRequest)
    version = api.versions[1]
    try:
        response = _ask(connection, version, deadline)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}.get(api.key, 0)
            response = _ask(connection, min(version - 1, max(offered, 0)), deadline)
    except RequestTimedOut as error:
        error.message += (
            " to ApiVersions, the first request: is this a listener of a Kafka broker, and is security.protocol the"
            f" listener's? (brokers before 0.10 never answer it; for one of these set {FALLBACK_PROPERTY})"
        )
        raise
    except BrokerUnavailable as error:
        error.message += " before it answered ApiVersions: is this a listener of a Kafka broker?"
        raise
    if response.error_code:
        raise error_from_code(response.error_code, "ApiVersions", broker=connection.label)
    if not response.api_keys:
        raise ProtocolFault("ApiVersions response lists no API", broker=connection.label)
    # Epoch -1: the broker knows no finalized feature yet, which is not the same as "none".
    finalized = response.finalized_features if response.finalized_features_epoch >= 0 else []
    return Versions(
        ranges={entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys},
        finalized_features={feature.name: feature.max_version_level for feature in finalized},
        supported_features={
            feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features
        },
    )


def _ask(connection: Asker, version: int, deadline: Deadline) -> ApiVersionsResponse:
    # The software's name and version exist from version 3 on and are ignorable below. A broker rejects anything but
    # letters, digits, dots and dashes there (KIP-511).
    request = ApiVersionsRequest(client_software_name=DISTRIBUTION, client_software_version=VERSION)
    response: ApiVersionsResponse = connection.call(request, version, deadline=deadline)
    return response


#: What releases that cannot be asked speak, by API name.
_BEFORE_API_VERSIONS: Final[dict[str, dict[str, tuple[int, int]]]] = {
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


def parse_fallback(text: str) -> str:
    """A release like "0.9.0.1" or "0.9" as the name of its table. Raises ValueError, saying what there is."""
    numbers = text.split(".")
    for release in _BEFORE_API_VERSIONS:
        known = release.split(".")
        if numbers[: len(known)] == known or (len(numbers) == 2 and [*numbers, "0"] == known):
            return release
    tables = ", ".join(_BEFORE_API_VERSIONS)
    raise ValueError(f"{text!r} is not one of {tables}; brokers from 0.10 on report their versions themselves")


def assumed_versions(release: str) -> Versions:
    """What brokers of a release before 0.10 speak; each release keeps what the one before it had."""
    from kseg.client.protocol.registry import API_BY_NAME  # imports all messages: only where a broker cannot be asked

    ranges: dict[int, tuple[int, int]] = {}
    for table, apis in _BEFORE_API_VERSIONS.items():
        ranges |= {API_BY_NAME[name].key: versions for name, versions in apis.items() if name in API_BY_NAME}
        if table == release:
            return Versions(ranges, {}, assumed=True)
    raise ValueError(f"no table for release {release!r}")


class SilentBrokers:
    """Brokers that did not answer ApiVersions, so that not every connection to one waits for nothing.

    An entry ends after ten minutes, since a broker may be upgraded, and at the first error on a connection that was
    opened because of it: the broker may have been slow or shutting down.

    The time waited for an answer is added up over connections. A caller whose deadlines are shorter than the wait, such
    as the heartbeats of a member with a short session, would otherwise never find out.
    """

    def __init__(self, seconds: float = _REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, int], float] = {}
        self._waited: dict[tuple[str, int], float] = {}

    def has(self, host: str, port: int) -> bool:
        since = self._since.get((host, port))
        return since is not None and time.monotonic() - since < self._seconds

    def add(self, host: str, port: int) -> None:
        self.discard(host, port)
        self._since[host, port] = time.monotonic()

    def discard(self, host: str, port: int) -> None:
        self._since.pop((host, port), None)
        self._waited.pop((host, port), None)

    def waited(self, host: str, port: int) -> float:
        """Seconds waited so far for an answer that has not come."""
        return self._waited.get((host, port), 0.0)

    def wait(self, host: str, port: int, seconds: float) -> None:
        """Add seconds that passed without a response."""
        self._waited[host, port] = self.waited(host, port) + seconds


def may_be_too_old(error: KafkaError) -> bool:
    """Whether this is how a broker before 0.10 takes ApiVersions: silence, or a closed connection."""
    return isinstance(error, RequestTimedOut | BrokerUnavailable)
