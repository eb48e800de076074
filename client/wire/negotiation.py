"""Negotiates API versions with a broker: ApiVersions (18) on every connection, or assumed versions for old releases.

A response is valid only for its connection: after a reconnect the broker may have another release. ApiVersions is the
first request on a connection, after TLS and before SASL, and needs no login.

Responses to a version of ApiVersions that the broker does not support, by release:

    from 2.4 on  code 35 in version 0, with the versions of ApiVersions that the broker supports
    0.10 to 2.3  code 35 in version 0, with an empty list; all of these releases support version 0
    0.9          no response, and the connection stays open
    before 0.9   the connection is closed

Brokers before 0.10 are supported only if `broker.version.fallback` names their release, which selects a table of the
supported versions. The release must not be guessed: a 0.9 broker decodes a request of an unknown version as a version
that it knows, and returns wrong results.

Sources: KIP-35, KIP-511. Tested with a live 0.9.0.1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kseg.client.errors import BrokerUnavailable, KafkaError, ProtocolFault, RequestTimedOut, error_from_code
from kseg.client.protocol.api import api_of
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.old_releases import versions_before_negotiation
from kseg.client.retry import Deadline
from kseg.client.wire.version import VERSION

DISTRIBUTION: Final = "kafka-segment-etl"
FALLBACK_PROPERTY: Final = "broker.version.fallback"

_REMEMBERED_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """The versions that a connection's broker supports, by API key (lowest, highest), and its features by name.

    `ranges` also has APIs that this client does not know. `finalized_features`: the cluster's levels.
    `supported_features`: the broker's levels (lowest, highest). `assumed`: the broker did not respond, and these are
    the versions of its configured release.
    """

    ranges: dict[int, tuple[int, int]]
    finalized_features: dict[str, int]
    supported_features: dict[str, tuple[int, int]] = field(default_factory=dict)
    assumed: bool = False

    def has(self, key: int, version: int) -> bool:
        """Whether a request of this API and version may be sent. Always true for ApiVersions itself."""
        lowest, highest = self.ranges.get(key, (0, -1))
        return lowest <= version <= highest or key == ApiVersionsRequest.KEY


class Asker(Protocol):
    """The part of a connection that negotiation needs."""

    label: str

    def call(self, request: Any, version: int, *, deadline: Deadline) -> Any: ...


def negotiate_versions(connection: Asker, deadline: Deadline) -> BrokerVersions:
    """Request a broker's versions, with the highest version of ApiVersions that both sides support.

    Raises RequestTimedOut or BrokerUnavailable if there is no response, with a hint at possible causes; ProtocolFault;
    and the error of the response's code.
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
    # Epoch -1: the broker does not know the finalized features yet.
    finalized = response.finalized_features if response.finalized_features_epoch >= 0 else []
    return BrokerVersions(
        ranges={entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys},
        finalized_features={feature.name: feature.max_version_level for feature in finalized},
        supported_features={
            feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features
        },
    )


def _ask(connection: Asker, version: int, deadline: Deadline) -> ApiVersionsResponse:
    # The fields for the client's name and version exist from version 3 on, and are ignored in older versions. A broker
    # accepts only letters, digits, dots and dashes in them (KIP-511).
    request = ApiVersionsRequest(client_software_name=DISTRIBUTION, client_software_version=VERSION)
    response: ApiVersionsResponse = connection.call(request, version, deadline=deadline)
    return response


def assumed_versions(release: str) -> BrokerVersions:
    """The versions that brokers of a release before 0.10 support, including those of earlier releases."""
    return BrokerVersions(versions_before_negotiation(release), {}, assumed=True)


class SilentBrokers:
    """Brokers that did not respond to ApiVersions, so that new connections to them do not wait again.

    An entry is removed after ten minutes, because the broker may be upgraded. It is also removed at the first error on
    a connection that used it, because the broker may only have been slow or shutting down.

    Waiting times are summed over connections. Otherwise a caller whose deadlines are shorter than the required wait,
    such as the heartbeats of a member with a short session, would never detect an old broker.
    """

    def __init__(self, seconds: float = _REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, int], float] = {}
        self._waited: dict[tuple[str, int], float] = {}
        self._probed: set[tuple[str, int]] = set()

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
        """Seconds waited so far without a response."""
        return self._waited.get((host, port), 0.0)

    def first_probe(self, host: str, port: int) -> bool:
        """Whether nobody has asked before what else listens there. A broker would log each probe as a bad request."""
        first = (host, port) not in self._probed
        self._probed.add((host, port))
        return first

    def wait(self, host: str, port: int, seconds: float) -> None:
        """Add seconds that passed without a response."""
        self._waited[host, port] = self.waited(host, port) + seconds


def may_be_too_old(error: KafkaError) -> bool:
    """Whether a broker before 0.10 can cause this error: no response to ApiVersions, or a closed connection."""
    return isinstance(error, RequestTimedOut | BrokerUnavailable)
