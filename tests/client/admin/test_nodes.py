"""Brokers, controllers and the metadata quorum, as the cluster tells them."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.client import KafkaError, UnsupportedVersion
from kseg.client.admin.configs import AlterConfig, ConfigResource, alter_configs, describe_configs
from kseg.client.admin.describe import describe_topic_partitions, describe_topics
from kseg.client.admin.features import describe_features
from kseg.client.admin.nodes import describe_cluster, describe_quorum, remove_voter, unregister_broker
from kseg.client.admin.topics import NewTopic, create_partitions, create_topics, delete_topics
from kseg.client.cluster.metadata import NO_ID
from kseg.client.protocol.enums import AclOperation, ConfigResourceType
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from kseg.client.protocol.messages.quorum_voters import DescribeQuorumRequest

ALL_OF_A_CLUSTER = {
    AclOperation.CREATE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
    AclOperation.ALTER,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE,
}


@pytest.mark.rule(250, 251)
def test_every_version_tells_the_brokers_and_what_may_be_done(any_cluster: Any, each_version: Any):
    for version in each_version(any_cluster, DescribeClusterRequest):
        told = describe_cluster(any_cluster, operations=True)
        metadata = any_cluster.metadata([], refresh=True)
        assert told.cluster_id == metadata.cluster_id
        assert [(node.node_id, node.host, node.port) for node in told.nodes] == [
            (broker.node_id, broker.host, broker.port) for broker in metadata.brokers.values()
        ]
        assert told.controller_id == 1
        assert told.operations == ALL_OF_A_CLUSTER
        assert describe_cluster(any_cluster).operations is None
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="controllers"):
                describe_cluster(any_cluster, of="controllers")
        else:
            # A broker does not answer for controllers.
            with pytest.raises(KafkaError) as caught:
                describe_cluster(any_cluster, of="controllers")
            assert caught.value.code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if version < 2:
            with pytest.raises(UnsupportedVersion, match="fenced"):
                describe_cluster(any_cluster, fenced=True)


def test_metadata_tells_the_same_where_there_is_no_describe_cluster(any_cluster: Any, each_version: Any, connect: Any):
    with_api = describe_cluster(any_cluster, operations=True)
    without = connect(f"{with_api.nodes[0].host}:{with_api.nodes[0].port}")
    for version in each_version(without, MetadataRequest):
        without.close()
        told = _without_describe_cluster(without)
        assert told.cluster_id == (with_api.cluster_id if version >= 2 else None)
        assert told.nodes == with_api.nodes
        assert told.controller_id == (1 if version >= 1 else -1)
        assert told.operations == (with_api.operations if 8 <= version <= 10 else None)


def _without_describe_cluster(cluster: Any) -> Any:
    def hidden(deadline: Any) -> None:
        del cluster.any_connection(deadline).versions.ranges[DescribeClusterRequest.KEY]

    if DescribeClusterRequest.KEY in cluster.retry(lambda d: cluster.any_connection(d)).versions.ranges:
        cluster.retry(hidden)
    return describe_cluster(cluster, operations=True)


def test_every_version_tells_the_quorum(any_cluster: Any, each_version: Any):
    for version in each_version(any_cluster, DescribeQuorumRequest):
        quorum = describe_quorum(any_cluster)
        assert quorum.leader_id == 1
        assert quorum.leader_epoch > 0
        assert 0 < quorum.high_watermark <= quorum.voters[0].log_end_offset
        assert [voter.node_id for voter in quorum.voters] == [1]
        assert quorum.observers == ()
        assert (quorum.voters[0].last_caught_up_ms > 0) == (version >= 1)
        assert bool(quorum.endpoints) == (version >= 2)


@pytest.mark.rule(253)
def test_controllers_are_administered_directly(kafka3: Any, three: Any, connect: Any, name: str, until: Any):
    ports = {node.id: node.controller_port for node in kafka3.broker.nodes}
    controllers = connect("", bootstrap_controllers=",".join(f"127.0.0.1:{port}" for port in ports.values()))

    def controller() -> int:
        told = describe_cluster(controllers, of="controllers")
        # A controller that has just started is listed when it has registered.
        return told.controller_id if {node.node_id: node.port for node in told.nodes} == ports else -1

    quorum = until(lambda: (found := describe_quorum(controllers)).leader_id == controller() and found)
    assert {node: {port for _, _, port in at} for node, at in quorum.endpoints.items()} == {
        node: {port} for node, port in ports.items()
    }
    assert describe_features(controllers).supported

    topic_id = create_topics(controllers, [NewTopic(name, 1, 2)]).or_raise()[name].topic_id
    assert until(lambda: name in describe_topics(three, [name]).done())
    create_partitions(controllers, {name: 2}).or_raise()

    def partitions() -> int:  # 0 at a broker that has not heard of the topic yet
        found = describe_topics(three, [name]).done().get(name)
        return len(found.partitions) if found else 0

    assert until(lambda: partitions() == 2)
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    alter_configs(controllers, {resource: [AlterConfig("retention.ms", "123")]}).or_raise()
    assert until(lambda: describe_configs(three, [resource]).or_raise()[resource]["retention.ms"].value == "123")
    assert delete_topics(controllers, [topic_id])[topic_id] is None
    assert until(lambda: name in describe_topics(three, [name]).failed())


def test_three_voters_follow_one_leader(three: Any, until: Any):
    quorum = describe_quorum(three)
    assert {voter.node_id for voter in quorum.voters} == {1, 2, 3}
    assert quorum.leader_id in {1, 2, 3}

    def all_follow() -> bool:  # a new leader does not know of a voter before that has asked it
        found = describe_quorum(three)
        return all(voter.log_end_offset >= found.high_watermark - 1000 for voter in found.voters)

    assert until(all_follow)


@pytest.mark.rule(33, 45, 262)
def test_a_dead_broker_is_told_with_its_replicas_then_unregistered_and_comes_back(
    three: Any, kafka3: Any, until: Any, name: str
):
    with pytest.raises(KafkaError) as caught:
        unregister_broker(three, 77)
    assert (caught.value.code, caught.value.broker) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "77")

    create_topics(three, [NewTopic(name, assignments=[[1, 2, 3]])]).or_raise()
    kafka3.broker.kill(2)
    assert until(lambda: {node.node_id for node in describe_cluster(three).nodes} == {1, 3})

    def registered() -> tuple[Any, ...]:
        return tuple(describe_cluster(three, fenced=True).nodes)

    # Which broker answers is chance, here and below, and each hears of it at its own time.
    assert until(lambda: {node.node_id: node.fenced for node in registered()} == {1: False, 2: True, 3: False})
    assert {node.node_id: node.rack for node in registered()} == {1: "rack-1", 2: "rack-2", 3: "rack-3"}

    def offline() -> bool:
        partition = describe_topics(three, [name]).or_raise()[name].partitions[0]
        return (partition.replicas, partition.offline, set(partition.in_sync)) == ((1, 2, 3), (2,), {1, 3})

    assert until(offline)

    def offline_on_a_page() -> bool:
        page = describe_topic_partitions(three, [name]).or_raise()[name].partitions[0]
        return (page.replicas, page.offline) == ((1, 2, 3), (2,))

    assert until(offline_on_a_page)

    unregister_broker(three, 2)
    assert until(lambda: 2 not in {node.node_id for node in describe_cluster(three, fenced=True).nodes})
    kafka3.broker.restart(2)
    assert until(lambda: 2 in {node.node_id for node in describe_cluster(three).nodes})


def test_a_voter_that_there_is_not_cannot_be_removed(cluster: Any):
    with pytest.raises(KafkaError) as caught:
        remove_voter(cluster, 77, NO_ID)
    assert caught.value.code in (ErrorCode.VOTER_NOT_FOUND, ErrorCode.INVALID_REQUEST)
    assert caught.value.resource == "voter 77"
