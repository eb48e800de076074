"""Topics as they are now: by name, by id, page by page, with what one may do with them."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.client import CommittedOffset, TopicPartition, UnknownTopic, UnsupportedVersion, commit_offsets
from kseg.client.admin.describe import describe_topic_partitions, describe_topics
from kseg.client.admin.topics import NewTopic, create_topic, create_topics, delete_topic
from kseg.client.protocol.enums import AclOperation
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest, MetadataResponse

ALL_OF_A_TOPIC = frozenset(
    {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }
)


def test_every_version_describes_topics_and_creates_none(any_cluster: Any, each_version: Any, name: str):
    topic_id = create_topics(any_cluster, [NewTopic(name, 2, 1)]).or_raise()[name].topic_id
    for version in each_version(any_cluster, MetadataRequest):
        results = describe_topics(any_cluster, [name, f"{name}-none"], operations=True)
        found = results.done()[name]
        assert sorted(found.partitions) == [0, 1]
        assert found.partitions[1].leader == 1
        assert found.partitions[1].replicas == found.partitions[1].in_sync == (1,)
        assert found.topic_id == (topic_id if version >= 10 else None)
        assert found.operations == (ALL_OF_A_TOPIC if version >= 8 else None)
        assert isinstance(results[f"{name}-none"], UnknownTopic), version
        assert results.failed()[f"{name}-none"].topic == f"{name}-none"
        # Asking is not making, not even in the versions whose asking makes topics where brokers allow it.
        assert f"{name}-none" not in describe_topics(any_cluster).done()
        if version >= 12:
            assert describe_topics(any_cluster, [topic_id]).or_raise()[topic_id].name == name
        else:
            with pytest.raises(UnsupportedVersion, match="by id"):
                describe_topics(any_cluster, [topic_id])


@pytest.mark.rule(41)
def test_none_is_all_topics_and_an_empty_collection_is_none(cluster: Any, kafka: Any):
    topic = kafka.topic()
    assert topic in describe_topics(cluster)
    assert topic in describe_topic_partitions(cluster)
    assert describe_topics(cluster, []) == {}
    assert describe_topic_partitions(cluster, []) == {}


def test_internal_topics_say_that_they_are(cluster: Any, kafka: Any, name: str):
    commit_offsets(cluster, name, {TopicPartition(kafka.topic(), 0): CommittedOffset(0)})
    topics = describe_topics(cluster).or_raise()
    assert topics["__consumer_offsets"].is_internal
    assert describe_topic_partitions(cluster, ["__consumer_offsets"]).or_raise()["__consumer_offsets"].is_internal
    assert [topic for topic in topics.values() if topic.is_internal and not topic.name.startswith("__")] == []


@pytest.mark.rule(31)
def test_asking_leaves_the_remembered_metadata_alone_and_never_uses_it(cluster: Any, name: str):
    """Admin reads always ask; the two paths are independent of each other."""
    first = create_topic(cluster, name)
    remembered = cluster.metadata([name])
    other = type(cluster)(cluster.config)
    with other:
        delete_topic(other, name)
        second = create_topic(other, name, partitions=2)
    assert describe_topics(cluster, [name]).or_raise()[name].topic_id == second
    assert describe_topic_partitions(cluster, [name]).or_raise()[name].topic_id == second
    assert cluster.metadata([name]) == remembered
    assert remembered.topics[name].topic_id == first


def test_pages_are_put_together(cluster: Any, each_version: Any, name: str):
    names = [f"{name}-{letter}" for letter in "cab"]
    created = create_topics(cluster, [NewTopic(topic, partitions=5) for topic in names]).or_raise()
    for _ in each_version(cluster, DescribeTopicPartitionsRequest):
        found = describe_topic_partitions(cluster, [*names, f"{name}-none"], page=2)
        assert set(found.done()) == set(names)
        for topic in names:
            assert sorted(found.done()[topic].partitions) == [0, 1, 2, 3, 4]
            assert found.done()[topic].topic_id == created[topic].topic_id
            assert found.done()[topic].operations == ALL_OF_A_TOPIC
            assert found.done()[topic].partitions[4].leader == 1
            assert found.done()[topic].partitions[4].eligible == ()
        assert found.failed()[f"{name}-none"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert set(describe_topic_partitions(cluster, page=3).done()) == set(describe_topics(cluster).done())


@pytest.mark.parametrize("topics", [None, ["t"]])
def test_a_broker_that_wants_a_new_start_has_not_described_the_topics(fake: Any, connect: Any, topics: Any):
    """REBOOTSTRAP_REQUIRED (KIP-1102) is the whole answer: no topic is missing because of it."""
    fake.add_topic("t", [1])
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata([])
    again = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    fake.on(MetadataRequest, lambda _: again, fake.metadata)
    assert list(describe_topics(cluster, topics).or_raise()) == ["t"]
