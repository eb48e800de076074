"""Why an operation that was given up could not work: permanent conditions that look like passing ones.

    seen                                      proved by                                 setting of the brokers
    ----------------------------------------  ----------------------------------------  ------------------------------
    COORDINATOR_NOT_AVAILABLE, and no         fewer brokers than the setting, stopped   transaction.state.log.
      __transaction_state                       ones included                             replication.factor
    the same, and no __consumer_offsets       the same                                  offsets.topic.replication.factor
    no listed broker can be reached, while    none of their names exists (NXDOMAIN)     advertised.listeners
      one answers at a bootstrap server

With the fact, `KafkaError.setting` names the setting, and the error is not retriable any more. Without it (brokers are
down, or the account may not read configurations) the error stays retriable, and its message has the suspected cause.
A broker that restarts is no such condition: it is registered still, and its name exists. Nor are bootstrap servers
whose names do not exist: those may be misspelled, or the names of pods of Kubernetes that start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple, Protocol

from kseg.client.cluster.metadata import ClusterMetadata
from kseg.client.config import ClientConfig
from kseg.client.errors import BrokerUnavailable, KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import DescribeConfigsRequest
from kseg.client.protocol.messages.metadata import DescribeClusterRequest
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.transport import name_exists

#: For all requests of one diagnosis together.
_SECONDS: Final = 10.0
_BROKER: Final = 4  # as a resource type of DescribeConfigs
_FIRST_WITH_FENCED: Final = 2  # of DescribeCluster, from 4.0 on


class _Log(NamedTuple):
    """The topic in which coordinators keep their state, and the brokers' settings for it."""

    topic: str
    factor: str


_LOGS: Final = {
    "transaction": _Log("__transaction_state", "transaction.state.log.replication.factor"),
    "group": _Log("__consumer_offsets", "offsets.topic.replication.factor"),
}


class DiagnosedCluster(Protocol):
    """The cluster, as far as a diagnosis needs it: each call is one try."""

    config: ClientConfig

    def ask_metadata_now(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterMetadata: ...
    def any_connection(self, deadline: Deadline) -> BrokerConnection: ...
    def send_now(self, kind: Any, build: Callable[[int], Any], deadline: Deadline, *, broker: int | None) -> Any: ...


def diagnose(cluster: DiagnosedCluster, error: KafkaError) -> None:
    """Find out more about an error that ended an operation, and add it to the error. Raises nothing."""
    if not error.retriable:
        return
    deadline = Deadline.after(_SECONDS)
    try:
        if error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            kind = "transaction" if error.transactional_id is not None else "group"
            _why_no_coordinator(cluster, error, _LOGS[kind], deadline)
        elif isinstance(error, BrokerUnavailable) and error.advertised:
            _why_not_reached(cluster, error, deadline)
        elif isinstance(error, BrokerUnavailable) and error.unknown_hosts >= _bootstrap_hosts(cluster):
            error.remedy = (
                "correct bootstrap.servers if its names are wrong; if they are not, run the same command again when "
                "they exist"
            )
    except KafkaError:
        return  # brokers do not answer: that is what is wrong, and a retry may help


def _bootstrap_hosts(cluster: DiagnosedCluster) -> set[str]:
    return {host for host, _ in cluster.config.bootstrap_servers}


def _why_no_coordinator(cluster: DiagnosedCluster, error: KafkaError, log: _Log, deadline: Deadline) -> None:
    metadata = cluster.ask_metadata_now([log.topic], deadline)
    topic = metadata.topics[log.topic]
    if topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return
    live = len(metadata.brokers)
    factors = [_number(cluster, node, log.factor, deadline) for node in metadata.brokers]
    known = [factor for factor in factors if factor is not None]
    if not known:
        error.message += (
            f": {log.topic} does not exist; it cannot be created if {log.factor} of the brokers (which could not be "
            f"read) is more than the number of live brokers, {live}"
        )
        return
    factor = min(known)
    if live >= factor:
        return
    error.message += f": {log.topic} cannot be created, since it needs {factor} brokers ({log.factor})"
    registered = _registered(cluster, deadline) or live
    if registered >= factor:
        error.message += f", and only {live} of {registered} are up"
        return
    error.message += f", and the cluster has {registered}"
    error.blame(
        log.factor, f"set {log.factor} of the brokers to {registered} or less, and restart them; or add brokers"
    )


def _registered(cluster: DiagnosedCluster, deadline: Deadline) -> int | None:
    """The number of the cluster's brokers, those included that are down; None where brokers cannot tell."""
    connection = cluster.any_connection(deadline)
    if not connection.offers(DescribeClusterRequest, _FIRST_WITH_FENCED):
        return None
    version = connection.version_of(DescribeClusterRequest)
    answer = connection.call(DescribeClusterRequest(include_fenced_brokers=True), version, deadline=deadline)
    return None if answer.error_code else len(answer.brokers)


def _number(cluster: DiagnosedCluster, broker: int, key: str, deadline: Deadline) -> int | None:
    """A number of a broker's configuration; None where the account may not read it."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(broker), configuration_keys=[key]
    )

    def build(version: int) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(resources=[resource])

    try:
        answer: Any = cluster.send_now(DescribeConfigsRequest, build, deadline, broker=broker)
    except KafkaError:
        return None
    values = [entry.value for result in answer.results if not result.error_code for entry in result.configs]
    return int(values[0]) if values and values[0] is not None and values[0].isdigit() else None


def _why_not_reached(cluster: DiagnosedCluster, error: BrokerUnavailable, deadline: Deadline) -> None:
    metadata = cluster.ask_metadata_now([], deadline)
    listed = {(broker.host, broker.port): broker.node_id for broker in metadata.brokers.values()}
    wrong = [place for place in dict.fromkeys(error.advertised) if place in listed]
    if not wrong:
        return
    given = ", ".join(f"{host}:{port}" for host, port in cluster.config.bootstrap_servers)
    advertised = ", ".join(f"{host}:{port} (broker {listed[host, port]})" for host, port in wrong)
    error.message += (
        f": the address that was given, {given}, answers; clients then connect to what the brokers advertise, "
        f"{advertised}"
    )
    unknown = {host for host, _ in wrong} & error.unknown_hosts
    if unknown and not any(name_exists(host, deadline) for host, _ in listed):
        remedy = (
            "set advertised.listeners of the brokers to names that exist where kseg runs, or add the names "
            f"{', '.join(sorted(unknown))} to its DNS or hosts file"
        )
        error.blame("advertised.listeners", remedy)
