"""What is known of a cluster, how long it is believed, and that asking creates nothing."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from kseg.client import CommittedOffset, commit_offsets
from kseg.client.cluster.metadata import (
    Broker,
    ClusterMetadata,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
    leader_in,
    metadata_request,
    read_metadata,
)
from kseg.client.errors import AuthorizationFailed, LeaderNotAvailable, ProtocolFault, UnknownTopic
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kseg.client.protocol.partition import TopicPartition

A, B = UUID(int=1), UUID(int=2)


def topic(
    name: str = "t", *, epoch: int = 0, leader: int = 1, topic_id: UUID | None = A, error: Any = None
) -> TopicMetadata:
    partitions = {} if error else {0: PartitionMetadata(0, leader, epoch, (1, 2), (1, 2))}
    return TopicMetadata(name, topic_id, False, partitions, error)


def state(*topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata("c", 1, {1: Broker(1, "h", 1), 2: Broker(2, "h", 2)}, {t.name: t for t in topics})


def leader_epoch(metadata: ClusterMetadata | None) -> int:
    assert metadata is not None
    return metadata.topics["t"].partitions[0].leader_epoch


@pytest.mark.rule(26)
def test_what_was_asked_is_known_and_nothing_else():
    cache = MetadataCache(60)
    assert cache.find(["t"]) is None
    cache.merge(state(topic("t")), ["t"])
    assert cache.find(["t"]) == state(topic("t"))
    assert cache.find([]) == state()
    assert cache.find(["t", "u"]) is None
    assert cache.find(None) is None


def test_all_topics_answer_for_each_of_them():
    cache = MetadataCache(60)
    cache.merge(state(topic("t"), topic("u")), None)
    assert cache.find(["u"]) == state(topic("u"))
    assert cache.find(None) == state(topic("t"), topic("u"))


@pytest.mark.rule(29)
def test_metadata_that_is_too_old_is_not_believed():
    for seconds, believed in ((60.0, True), (0.05, False)):
        cache = MetadataCache(seconds)
        cache.merge(state(topic("t")), ["t"])
        time.sleep(0.06)
        assert (cache.find(["t"]) is not None) is believed


def test_a_topic_with_an_error_is_asked_for_again():
    cache = MetadataCache(60)
    unknown = topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert cache.merge(state(unknown), ["t"]).topics["t"].error == 3
    assert cache.find(["t"]) is None


def test_refreshing_one_topic_does_not_revive_another_that_was_invalidated():
    cache = MetadataCache(60)
    cache.merge(state(topic("t"), topic("u")), ["t", "u"])
    cache.invalidate()
    cache.merge(state(topic("u")), ["u"])
    assert cache.find(["u"]) is not None
    assert cache.find(["t"]) is None


@pytest.mark.rule(45)
def test_an_older_leader_epoch_does_not_replace_a_newer_one():
    cache = MetadataCache(60)
    cache.merge(state(topic(epoch=5, leader=2)), ["t"])
    cache.invalidate()
    merged = cache.merge(state(topic(epoch=4, leader=1)), ["t"])
    assert leader_epoch(merged) == leader_epoch(cache.find(["t"])) == 5
    assert leader_epoch(cache.merge(state(topic(epoch=6)), ["t"])) == 6


@pytest.mark.parametrize("new_id", [B, None])
def test_epochs_of_a_topic_created_again_or_without_id_are_not_compared(new_id: UUID | None):
    cache = MetadataCache(60)
    cache.merge(state(topic(epoch=5, topic_id=A)), ["t"])
    assert leader_epoch(cache.merge(state(topic(epoch=0, topic_id=new_id)), ["t"])) == 0


def test_forgetting_forgets_epochs_too():
    cache = MetadataCache(60)
    cache.merge(state(topic(epoch=5)), ["t"])
    cache.forget()
    assert cache.find([]) is None
    assert leader_epoch(cache.merge(state(topic(epoch=0)), ["t"])) == 0


@pytest.mark.rule(32)
def test_leaders_and_their_absence():
    tp = TopicPartition("t", 0)
    assert leader_in(state(topic(leader=2, epoch=3)), tp) == (Broker(2, "h", 2), 3, A)
    with pytest.raises(LeaderNotAvailable, match="no leader") as caught:
        leader_in(state(topic(leader=-1)), tp)
    assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("t", 0, True)
    with pytest.raises(LeaderNotAvailable, match="broker 9, which is not in the cluster's metadata"):
        leader_in(state(topic(leader=9)), tp)
    with pytest.raises(UnknownTopic, match="1 partitions") as unknown:
        leader_in(state(topic()), TopicPartition("t", 1))
    assert unknown.value.retriable
    with pytest.raises(UnknownTopic):
        leader_in(state(topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), tp)
    with pytest.raises(AuthorizationFailed):
        leader_in(state(topic(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)), tp)


@pytest.mark.rule(40)
@pytest.mark.parametrize("version", range(4, 14))
def test_a_request_forbids_creation(version: int):
    request = metadata_request(version, ["t"])
    assert request.allow_auto_topic_creation is False
    assert [t.name for t in request.topics or ()] == ["t"]


@pytest.mark.parametrize("version", range(4))
def test_versions_that_cannot_forbid_it_name_no_topic(version: int):
    assert metadata_request(version, ["t"]).topics == ([] if version == 0 else None)


@pytest.mark.parametrize("highest", [0, 1, 3])
def test_an_old_broker_is_asked_for_all_topics_and_the_answer_is_filtered(fake: Any, connect: Any, highest: int):
    fake.ranges[MetadataRequest.KEY] = (0, highest)
    fake.add_topic("t", [1])
    fake.add_topic("u", [1])
    topics = connect(fake.bootstrap_servers).metadata(["t", "nope"]).topics
    assert {name: found.error for name, found in topics.items()} == {"t": None, "nope": 3}
    assert all(not seen.request.topics for seen in fake.requests(MetadataRequest))


@pytest.mark.rule(40)
def test_asking_the_real_broker_creates_no_topic(cluster: Any):
    name = "never-created-by-asking"
    assert cluster.metadata([name]).topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    time.sleep(0.2)
    assert name not in cluster.metadata(None, refresh=True).topics


def test_the_real_broker_tells_topics_ids_and_leaders(cluster: Any, kafka: Any):
    name = kafka.topic(partitions=3)
    metadata = cluster.metadata([name])
    [broker] = metadata.brokers.values()
    assert metadata.cluster_id
    assert metadata.controller_id == broker.node_id
    assert f"{broker.host}:{broker.port}" == kafka.bootstrap_servers
    assert metadata.topics[name].topic_id
    assert {p.leader_id for p in metadata.topics[name].partitions.values()} == {broker.node_id}
    assert sorted(metadata.topics[name].partitions) == [0, 1, 2]
    assert not metadata.topics[name].is_internal
    assert name in cluster.metadata(None).topics


@pytest.mark.rule(42)
def test_internal_topics_are_told_apart(cluster: Any, kafka: Any):
    commit_offsets(cluster, "internal", {TopicPartition(kafka.topic(), 0): CommittedOffset(0)})
    topics = cluster.metadata(None).topics
    assert {name for name, found in topics.items() if found.is_internal} >= {"__consumer_offsets"}


@pytest.mark.parametrize("name", ["../../etc", "..", "", "a/b", "\x1b[2J", "x" * 250, "<script>", "a\n"])
def test_a_topic_name_that_kafka_does_not_allow_is_refused(name: str):
    def response(error: int) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name=name, error_code=error)])

    for topics in (None, [name]):
        with pytest.raises(ProtocolFault, match="does not allow") as caught:
            read_metadata(response(0), topics)
        assert str(caught.value).isprintable()
    with pytest.raises(ProtocolFault):
        read_metadata(response(17), None)
    # The broker itself says that the name, which was asked for, is not allowed.
    assert read_metadata(response(17), [name]).topics[name].error is ErrorCode.INVALID_TOPIC_EXCEPTION
