"""The cluster itself: its brokers, its controllers, the quorum that keeps its metadata.

    describe_cluster    DescribeCluster (60)    any broker or, with `bootstrap.controllers`, any controller
    describe_quorum     DescribeQuorum (55)     any broker (forwarded to the active controller)
    unregister_broker   UnregisterBroker (64)   to the controller
    add_voter           AddRaftVoter (80)       to the controller: a dynamic quorum grows
    remove_voter        RemoveRaftVoter (81)    to the controller: it shrinks

Admin reads always ask: what the cluster object remembers is neither used nor changed. Brokers before 2.8 have no
DescribeCluster; Metadata has the same there (without fenced brokers).

Sources: KIP-595, KIP-700, KIP-836, KIP-853, KIP-919, KIP-1073.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, check_metadata
from kseg.client.errors import UnsupportedVersion, error_from_code
from kseg.client.protocol.enums import AclOperation, authorized_operations
from kseg.client.protocol.messages.brokers import UnregisterBrokerRequest
from kseg.client.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse, MetadataRequest
from kseg.client.protocol.messages.quorum_voters import (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
)
from kseg.client.retry import Deadline

METADATA_TOPIC: Final = "__cluster_metadata"
_ENDPOINTS: Final = {"brokers": 1, "controllers": 2}
_FIRST_WITH_ENDPOINT_TYPE: Final = 1
_FIRST_WITH_FENCED: Final = 2
_METADATA_WITH_OPERATIONS: Final = range(8, 11)


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or controller. `fenced`: registered and not (yet, or any more) in service."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller_id`: in KRaft any broker, since all forward, or asked of controllers the active one; -1: none.

    `operations`: what the asker may do to the cluster, None if that was not requested or is unknown.
    """

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]
    operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One copy of the metadata log. Times in ms since 1970, -1 where they are unknown (or it is the leader's)."""

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum. `endpoints`: a controller's listeners, (name, host, port), by node id (from Kafka 3.9)."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[tuple[str, str, int], ...]]


def describe_cluster(
    cluster: Cluster,
    *,
    of: Literal["brokers", "controllers"] = "brokers",
    operations: bool = False,
    fenced: bool = False,
) -> ClusterDescription:
    """The nodes of the cluster. `operations`: also what we may do to it; `fenced`: also brokers out of service.

    `of="controllers"` is a question that only controllers answer: for a cluster made with `bootstrap.controllers`.
    Raises MISMATCHED_ENDPOINT_TYPE's error where the wrong kind was asked, UnsupportedVersion.
    """

    def attempt(deadline: Deadline) -> ClusterDescription:
        connection = cluster.any_connection(deadline)
        if not connection.offers(DescribeClusterRequest):
            if of == "controllers" or fenced:
                raise UnsupportedVersion("the broker is too old to report this", broker=connection.label)
            return _from_metadata(cluster, deadline, operations)
        version = connection.version_of(DescribeClusterRequest)
        request = DescribeClusterRequest(include_cluster_authorized_operations=operations)
        if of == "controllers" and version < _FIRST_WITH_ENDPOINT_TYPE:
            raise UnsupportedVersion("the broker is too old to list controllers", broker=connection.label)
        if fenced and version < _FIRST_WITH_FENCED:
            raise UnsupportedVersion("the broker is too old to list fenced brokers", broker=connection.label)
        if version >= _FIRST_WITH_ENDPOINT_TYPE:
            request.endpoint_type = _ENDPOINTS[of]
        if version >= _FIRST_WITH_FENCED:
            request.include_fenced_brokers = fenced
        response: DescribeClusterResponse = connection.call(request, version, deadline=deadline)
        if response.error_code:
            raise error_from_code(
                response.error_code, "DescribeCluster", detail=response.error_message, broker=connection.label
            )
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes=tuple(
                Node(node.broker_id, node.host, node.port, node.rack, node.is_fenced) for node in response.brokers
            ),
            operations=authorized_operations(response.cluster_authorized_operations),
        )

    return cluster.retry(attempt)


def _from_metadata(cluster: Cluster, deadline: Deadline, operations: bool) -> ClusterDescription:
    def build(version: int) -> MetadataRequest:
        request = MetadataRequest(topics=[])
        if version >= 4:
            request.allow_auto_topic_creation = False
        if version in _METADATA_WITH_OPERATIONS:
            request.include_cluster_authorized_operations = operations
        return request

    response = cluster.send_now(MetadataRequest, build, deadline)
    check_metadata(response)
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes=tuple(Node(node.node_id, node.host, node.port, node.rack) for node in response.brokers),
        operations=authorized_operations(response.cluster_authorized_operations),
    )


def describe_quorum(cluster: Cluster) -> QuorumDescription:
    """The controllers' replicas of the metadata log, as the leader among them knows them. KRaft alone, from 3.3 on."""
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.TopicData(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
            )
        ]
    )

    def check(response: DescribeQuorumResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeQuorum", detail=response.error_message)
        partition = response.topics[0].partitions[0]
        if partition.error_code:
            raise error_from_code(
                partition.error_code, "DescribeQuorum", detail=partition.error_message, topic=METADATA_TOPIC
            )

    # Only the quorum's leader knows; a broker passes the question on to it, a controller does not.
    response = cluster.send(request, controller=bool(cluster.config.bootstrap_controllers), check=check)
    partition = response.topics[0].partitions[0]
    return QuorumDescription(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(_replica(replica) for replica in partition.current_voters),
        observers=tuple(_replica(replica) for replica in partition.observers),
        endpoints={
            node.node_id: tuple((listener.name, listener.host, listener.port) for listener in node.listeners)
            for node in response.nodes
        },
    )


def unregister_broker(cluster: Cluster, node_id: int) -> None:
    """Unregister a broker that is gone for good. A running one would register again."""

    def check(response: Any) -> None:
        if response.error_code:
            raise error_from_code(
                response.error_code, "UnregisterBroker", detail=response.error_message, broker=str(node_id)
            )

    cluster.send(UnregisterBrokerRequest(broker_id=node_id), controller=True, check=check)


def add_voter(cluster: Cluster, node_id: int, directory_id: UUID, listeners: Sequence[tuple[str, str, int]]) -> None:
    """Make a controller that follows the quorum a voter; `listeners`: (name, host, port). A dynamic quorum's alone."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=cluster.config.request_timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[AddRaftVoterRequest.Listener(name=name, host=host, port=port) for name, host, port in listeners],
    )

    def check(response: Any) -> None:
        if response.error_code:
            raise error_from_code(
                response.error_code, "AddRaftVoter", detail=response.error_message, resource=f"voter {node_id}"
            )

    cluster.send(request, controller=True, check=check)


def remove_voter(cluster: Cluster, node_id: int, directory_id: UUID) -> None:
    """Make a voter an observer again. A dynamic quorum's alone."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)

    def check(response: Any) -> None:
        if response.error_code:
            raise error_from_code(
                response.error_code, "RemoveRaftVoter", detail=response.error_message, resource=f"voter {node_id}"
            )

    cluster.send(request, controller=True, check=check)


def _replica(replica: Any) -> QuorumReplica:
    return QuorumReplica(
        node_id=replica.replica_id,
        directory_id=None if replica.replica_directory_id == NO_ID else replica.replica_directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=replica.last_fetch_timestamp,
        last_caught_up_ms=replica.last_caught_up_timestamp,
    )
