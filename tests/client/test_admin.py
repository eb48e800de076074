"""Topics, their settings and their files, on the real broker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from client import (
    KafkaError,
    NewTopic,
    TopicExists,
    TopicPartition,
    UnknownTopic,
    create_topic,
    create_topics,
    delete_topic,
    delete_topics,
    describe_log_dirs,
    describe_topic_configs,
    finalized_features,
)
from client.admin import ConfigEntry
from client.producer import Producer
from client.protocol import ErrorCode
from client.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from segment_reader.encode import Record


@pytest.fixture
def name() -> str:
    return f"admin-{uuid.uuid4()}"


def test_a_created_topic_has_its_leaders_when_it_is_told(cluster: Any, name: str):
    topic_id = create_topic(cluster, name, partitions=3, config={"retention.ms": "-1"})
    found = cluster.metadata([name]).topics[name]
    assert found.topic_id == topic_id
    assert [found.partitions[number].leader_id for number in range(3)] == [1, 1, 1]
    Producer(cluster).send({TopicPartition(name, 2): [Record(value=b"v")]})


def test_a_topic_is_created_once(cluster: Any, name: str):
    create_topics(cluster, [NewTopic(name)])
    with pytest.raises(TopicExists) as caught:
        create_topics(cluster, [NewTopic(name)])
    assert caught.value.topic == name
    assert not caught.value.retriable


def test_what_the_broker_refuses_is_told_in_its_words(cluster: Any, name: str):
    with pytest.raises(KafkaError, match=r"retention\.mss") as caught:
        create_topic(cluster, name, config={"retention.mss": "1"})
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
        create_topic(cluster, name, replication_factor=7)


def test_a_deleted_topic_is_gone_and_may_come_again_with_another_id(cluster: Any, name: str):
    first = create_topic(cluster, name)
    delete_topic(cluster, name)
    assert cluster.metadata([name]).topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    second = create_topic(cluster, name)
    assert second not in (None, first)


def test_deleting_what_is_not_there_is_told_at_once(cluster: Any, name: str):
    with pytest.raises(UnknownTopic) as caught:
        delete_topics(cluster, [name])
    assert caught.value.topic == name


@pytest.mark.parametrize("version", [1, 5, 6])
def test_topics_are_deleted_by_name_in_every_version(fake: Any, connect: Any, version: int):
    fake.ranges[DeleteTopicsRequest.KEY] = (1, version)
    fake.on(DeleteTopicsRequest, lambda _: DeleteTopicsResponse())
    delete_topic(connect(fake.bootstrap_servers), "t")
    [seen] = fake.requests(DeleteTopicsRequest)
    assert [*seen.request.topic_names, *(topic.name for topic in seen.request.topics)] == ["t"]


def test_settings_tell_where_they_come_from(cluster: Any, kafka: Any, connect: Any):
    topic = kafka.topic(config={"cleanup.policy": "compact"})
    settings = describe_topic_configs(cluster, [topic])[topic]
    assert settings["cleanup.policy"] == ConfigEntry("compact", "topic")
    assert settings["cleanup.policy"].is_set
    assert not settings["retention.ms"].is_set
    impatient = connect(kafka.bootstrap_servers, default_api_timeout_ms=300)  # the topic might be a very new one
    with pytest.raises(UnknownTopic):
        describe_topic_configs(impatient, ["nope"])


def test_log_folders_tell_sizes_by_partition(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(partitions=2), 1)
    Producer(cluster).send({tp: [Record(value=b"v" * 1000)]})
    [folder] = describe_log_dirs(cluster, [tp])
    assert Path(folder.path) in kafka.log_dirs
    assert folder.error is None
    assert folder.total_bytes > folder.usable_bytes > 0
    assert list(folder.partitions) == [tp]
    assert 1000 < folder.partitions[tp].size < 1200
    assert not folder.partitions[tp].is_future
    assert tp in describe_log_dirs(cluster)[0].partitions


def test_log_folders_of_all_brokers_are_merged(fake: Any, fakes: Any, connect: Any):
    second = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    for broker, path in ((fake, "/a"), (second, "/b")):
        result = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir=path, error_code=0)
        broker.on(DescribeLogDirsRequest, lambda _, result=result: DescribeLogDirsResponse(results=[result]))
    folders = describe_log_dirs(connect(fake.bootstrap_servers))
    assert [(folder.broker, folder.path) for folder in folders] == [(1, "/a"), (2, "/b")]


def test_finalized_features_are_those_of_the_release(cluster: Any):
    assert finalized_features(cluster)["transaction.version"] == 2
