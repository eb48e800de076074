"""Metadata from any broker that answers: known brokers first, then the bootstrap servers, each tried once.

Known brokers and bootstrap servers that failed last are tried last. After half of the time, only bootstrap servers are
tried: when a cluster was rebuilt, every known address may drop packets (KIP-899).

Brokers are sent Metadata (3). KRaft controllers (`bootstrap.controllers`, KIP-919) have no such API: DescribeCluster
(60) lists the controllers then, and which of them is active; controllers list no topics.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import Final

from kseg.client.cluster.metadata import Broker, ClusterMetadata, check_metadata, metadata_request, read_metadata
from kseg.client.cluster.pool import ConnectionPool
from kseg.client.config import ClientConfig
from kseg.client.errors import (
    BrokerUnavailable,
    KafkaError,
    ProtocolFault,
    RebootstrapRequired,
    RequestTimedOut,
    UnsupportedVersion,
    error_from_code,
)
from kseg.client.protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

#: Errors after which another broker may do what this one did not.
NEXT_BROKER: Final = (BrokerUnavailable, RequestTimedOut, ProtocolFault)

_CONTROLLERS: Final = 2  # as endpoint type
_FIRST_WITH_ENDPOINT_TYPE: Final = 1


def ask_anybody(
    pool: ConnectionPool,
    config: ClientConfig,
    known: Collection[Broker],
    topics: Collection[str] | None,
    deadline: Deadline,
    *,
    last: int | None = None,
) -> tuple[ClusterMetadata, int | None]:
    """The cluster and these topics (None: all), as the first broker or bootstrap server that answers describes them.

    With the id of the broker, if it is known. last: the id of the broker that is asked after the others.
    """
    failures: list[KafkaError] = []
    for connection in _askable(pool, config, known, deadline, failures, last):
        try:
            answer = _ask(connection, config, topics, deadline)
        except KafkaError as error:
            if connection.endpoint.node_id is None:
                connection.close()
            if isinstance(error, RebootstrapRequired) or not isinstance(error, NEXT_BROKER):
                raise
            failures.append(error)
            continue
        if connection.endpoint.node_id is None:
            pool.adopt(connection, answer)
        return answer, connection.endpoint.node_id
    raise nobody_answers(failures)


def nobody_answers(failures: list[KafkaError]) -> KafkaError:
    """One error for several: the only one itself, the first one if none is retriable, or all in one text."""
    if len(failures) == 1 or (failures and not any(failure.retriable for failure in failures)):
        return failures[0]
    lost = [failure for failure in failures if isinstance(failure, BrokerUnavailable)]
    advertised = tuple(place for failure in lost for place in failure.advertised)
    which = "broker that the cluster lists" if failures and len(advertised) == len(failures) else "bootstrap server"
    error = BrokerUnavailable(f"no {which} is available: {'; '.join(str(failure) for failure in failures)}")
    reasons = {failure.reason for failure in lost}
    error.reason = reasons.pop() if len(reasons) == 1 else None
    error.advertised = advertised
    error.unknown_hosts = frozenset(host for failure in lost for host in failure.unknown_hosts)
    return error


def _askable(
    pool: ConnectionPool,
    config: ClientConfig,
    known: Collection[Broker],
    deadline: Deadline,
    failures: list[KafkaError],
    last: int | None,
) -> Iterator[BrokerConnection]:
    servers = config.bootstrap_servers or config.bootstrap_controllers
    if known and config.metadata_recovery_strategy == "none":
        servers = ()
    candidates: list[Broker | tuple[str, int]] = [
        *pool.in_order(known, last=last),
        *random.sample(servers, len(servers)),
    ]
    known_until = deadline.within(deadline.remaining() / 2)
    while candidates:
        candidate = min(candidates, key=pool.last_failure)  # the first one of those that did not fail
        candidates.remove(candidate)
        try:
            if not isinstance(candidate, Broker):
                yield pool.bootstrap(*candidate, deadline)
            elif not (servers and failures and known_until.passed):
                yield pool.shared(candidate, deadline, "main")
        except NEXT_BROKER as error:
            failures.append(error)


def _ask(
    connection: BrokerConnection, config: ClientConfig, topics: Collection[str] | None, deadline: Deadline
) -> ClusterMetadata:
    if config.bootstrap_controllers:
        answer = _ask_controller(connection, topics, deadline)
    else:
        version = connection.version_of(MetadataRequest)
        response = connection.call(metadata_request(version, topics), version, deadline=deadline)
        check_metadata(response, connection.label)
        answer = read_metadata(response, topics)
    if not answer.brokers:
        raise BrokerUnavailable("the broker lists no brokers yet", broker=connection.label)
    return answer


def _ask_controller(
    connection: BrokerConnection, topics: Collection[str] | None, deadline: Deadline
) -> ClusterMetadata:
    if topics is None or topics:
        raise UnsupportedVersion(
            "KRaft controllers serve no topic metadata: use bootstrap.servers", broker=connection.label
        )
    version = connection.version_of(DescribeClusterRequest)
    if version < _FIRST_WITH_ENDPOINT_TYPE:
        raise UnsupportedVersion("the controller is too old for bootstrap.controllers", broker=connection.label)
    response = connection.call(DescribeClusterRequest(endpoint_type=_CONTROLLERS), version, deadline=deadline)
    if response.error_code:
        raise error_from_code(
            response.error_code, "DescribeCluster", detail=response.error_message, broker=connection.label
        )
    nodes = {node.broker_id: Broker(node.broker_id, node.host, node.port, node.rack) for node in response.brokers}
    return ClusterMetadata(response.cluster_id, response.controller_id, nodes, {})
