"""What a cluster is: metadata, versions, quorum, and who is asked for what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kseg.client.protocol.messages.brokers import UnregisterBrokerRequest
from kseg.client.protocol.messages.configs import UpdateFeaturesRequest
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from kseg.client.protocol.messages.quorum_voters import (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    RemoveRaftVoterRequest,
)

#: As bits: everything that a super user may do to a cluster or topic includes DESCRIBE (8).
DESCRIBE = 1 << 8


def metadata(peer: Any, version: int) -> None:
    topic = peer.topic(2)
    asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
    one = peer.call(MetadataRequest(topics=asked), version)
    [broker] = one.brokers
    assert (broker.node_id, f"{broker.host}:{broker.port}") == (peer.node_id, peer.kafka.bootstrap_servers)
    [found] = one.topics
    assert (found.name, found.error_code, found.is_internal) == (topic, 0, False)
    for at, partition in enumerate(sorted(found.partitions, key=lambda p: p.partition_index)):
        assert (partition.partition_index, partition.leader_id, partition.error_code) == (at, peer.node_id, 0)
        assert partition.replica_nodes == partition.isr_nodes == [peer.node_id]
        assert partition.offline_replicas == []
        if version >= 7:
            assert partition.leader_epoch == 0
    if version >= 1:
        assert one.controller_id == peer.node_id
    if version >= 2:
        assert one.cluster_id
    if version >= 10:
        assert found.topic_id == peer.topic_id(topic) != UUID(int=0)
    # An empty list is all topics in version 0, and none from version 1 on, where null is all.
    empty = {one.name for one in peer.call(MetadataRequest(topics=[]), version).topics}
    assert topic in empty if version == 0 else empty == set()
    if version >= 1:
        assert topic in {one.name for one in peer.call(MetadataRequest(topics=None), version).topics}
    if version >= 4:
        nobody = [MetadataRequest.MetadataRequestTopic(name=peer.name("nobody"))]
        [missing] = peer.call(MetadataRequest(topics=nobody, allow_auto_topic_creation=False), version).topics
        assert missing.error_code == 3
    if 8 <= version <= 10:
        told = peer.call(MetadataRequest(topics=[], include_cluster_authorized_operations=True), version)
        assert told.cluster_authorized_operations & DESCRIBE
    if version >= 8:
        asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
        told = peer.call(MetadataRequest(topics=asked, include_topic_authorized_operations=True), version)
        assert told.topics[0].topic_authorized_operations & DESCRIBE
    if version >= 12:
        by_id = [MetadataRequest.MetadataRequestTopic(name=None, topic_id=found.topic_id)]
        assert peer.call(MetadataRequest(topics=by_id), version).topics[0].name == topic


def api_versions(peer: Any, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="kseg-tests", client_software_version="1")
    response = peer.call(request, version)
    assert response.error_code == 0
    assert {k.api_key: (k.min_version, k.max_version) for k in response.api_keys} == peer.connection.versions.ranges
    if version >= 3 and not peer.with_zookeeper:
        assert response.finalized_features_epoch >= 0
        assert "metadata.version" in {feature.name for feature in response.finalized_features}
        assert "metadata.version" in {feature.name for feature in response.supported_features}


def describe_cluster(peer: Any, version: int) -> None:
    response = peer.call(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (response.error_code, response.controller_id) == (0, peer.node_id)
    assert response.cluster_id
    assert response.cluster_authorized_operations & DESCRIBE
    [broker] = response.brokers
    assert (broker.broker_id, f"{broker.host}:{broker.port}") == (peer.node_id, peer.kafka.bootstrap_servers)


def describe_topic_partitions(peer: Any, version: int) -> None:
    topic = peer.topic(3)
    asked = [DescribeTopicPartitionsRequest.TopicRequest(name=topic)]
    first = peer.call(DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2), version)
    [found] = first.topics
    assert (found.name, found.error_code, found.topic_id) == (topic, 0, peer.topic_id(topic))
    assert [partition.partition_index for partition in found.partitions] == [0, 1]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (topic, 2)
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name=topic, partition_index=2)
    last = peer.call(DescribeTopicPartitionsRequest(topics=asked, cursor=cursor), version)
    assert [partition.leader_id for partition in last.topics[0].partitions] == [peer.node_id]
    assert last.next_cursor is None


def describe_quorum(peer: Any, version: int) -> None:
    part = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    data = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[part])
    response = peer.call(DescribeQuorumRequest(topics=[data]), version)
    [partition] = response.topics[0].partitions
    assert (response.error_code, partition.error_code, partition.leader_id) == (0, 0, peer.node_id)
    assert [voter.replica_id for voter in partition.current_voters] == [peer.node_id]
    assert partition.high_watermark > 0
    if version >= 2:
        assert [node.node_id for node in response.nodes] == [peer.node_id]


def update_features(peer: Any, version: int) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[update])
    if version >= 1:
        request.validate_only = True
    response = peer.call(request, version)
    if peer.with_zookeeper:
        # The request needs a version of the brokers' own protocol that this mode does not reach, or an unknown feature
        # is told by name.
        codes = {response.error_code, *(result.error_code for result in response.results)}
        assert codes & {35, 42, 91, 95}, response
        return
    assert 95 in {response.error_code, *(result.error_code for result in response.results)}, response  # INVALID_UPDATE…
    assert all(result.feature == "no.such.feature" for result in response.results)


def unregister_broker(peer: Any, version: int) -> None:
    response = peer.call(UnregisterBrokerRequest(broker_id=77), version)
    assert response.error_code == 102, response  # BROKER_ID_NOT_REGISTERED


def add_raft_voter(peer: Any, version: int) -> None:
    """A voter of another cluster is refused, whatever else is said of it."""
    listener = AddRaftVoterRequest.Listener(name="CONTROLLER", host="127.0.0.1", port=1)
    request = AddRaftVoterRequest(
        cluster_id="another-cluster",
        timeout_ms=1000,
        voter_id=77,
        voter_directory_id=UUID(int=7),
        listeners=[listener],
    )
    response = peer.call(request, version)
    assert response.error_code == 104, response  # INCONSISTENT_CLUSTER_ID


def remove_raft_voter(peer: Any, version: int) -> None:
    request = RemoveRaftVoterRequest(cluster_id="another-cluster", voter_id=77, voter_directory_id=UUID(int=7))
    response = peer.call(request, version)
    assert response.error_code == 104, response


CHECKS = {
    "Metadata": metadata,
    "ApiVersions": api_versions,
    "DescribeCluster": describe_cluster,
    "DescribeTopicPartitions": describe_topic_partitions,
    "DescribeQuorum": describe_quorum,
    "UpdateFeatures": update_features,
    "UnregisterBroker": unregister_broker,
    "AddRaftVoter": add_raft_voter,
    "RemoveRaftVoter": remove_raft_voter,
}
