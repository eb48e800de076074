"""Topics are made, grow and are deleted, on real brokers of several releases and in every version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kseg.client import (
    EARLIEST,
    KafkaError,
    RequestTimedOut,
    TopicExists,
    TopicPartition,
    UnknownTopic,
    UnsupportedVersion,
    list_offsets,
)
from kseg.client.admin.configs import ConfigEntry, describe_topic_configs
from kseg.client.admin.describe import describe_topics
from kseg.client.admin.topics import (
    HIGH_WATERMARK,
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topic,
    create_topics,
    delete_records,
    delete_topic,
    delete_topics,
)
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kseg.segment_reader.encode.batches import Record
from sending import send_to
from skips import full_scale_only


@pytest.mark.rule(250)
def test_a_created_topic_has_its_leaders_when_it_is_told(cluster: Any, name: str):
    topic_id = create_topic(cluster, name, partitions=3, config={"retention.ms": "-1"})
    found = cluster.metadata([name]).topics[name]
    assert found.topic_id == topic_id
    assert [found.partitions[number].leader_id for number in range(3)] == [1, 1, 1]
    send_to(cluster, {TopicPartition(name, 2): [Record(value=b"v")]})


def test_a_topic_is_created_once(cluster: Any, name: str):
    create_topics(cluster, [NewTopic(name)])
    with pytest.raises(TopicExists) as caught:
        create_topics(cluster, [NewTopic(name)]).or_raise()
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
        delete_topics(cluster, [name]).or_raise()
    assert caught.value.topic == name


def test_one_part_that_fails_keeps_no_other_back(cluster: Any, name: str):
    create_topic(cluster, f"{name}-there")
    created = create_topics(
        cluster, [NewTopic(f"{name}-there"), NewTopic(f"{name}-new", partitions=2), NewTopic("no/name")]
    )
    assert list(created) == [f"{name}-there", f"{name}-new", "no/name"]
    assert isinstance(created[f"{name}-there"], TopicExists)
    assert created.done()[f"{name}-new"].partitions == 2
    assert created.failed()["no/name"].code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert created.failed()["no/name"].topic == "no/name"

    deleted = delete_topics(cluster, [f"{name}-new", f"{name}-none"])
    assert deleted[f"{name}-new"] is None
    assert isinstance(deleted[f"{name}-none"], UnknownTopic)
    assert cluster.metadata([f"{name}-new"]).topics[f"{name}-new"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.rule(295)
def test_every_version_creates_a_topic_with_its_settings(any_cluster: Any, each_version: Any, name: str):
    for version in each_version(any_cluster, CreateTopicsRequest):
        topic = NewTopic(f"{name}-{version}", 2, 1, {"retention.ms": "1234567"})
        created = create_topics(any_cluster, [topic]).or_raise()[topic.name]
        found = any_cluster.metadata([topic.name], refresh=True).topics[topic.name]
        assert sorted(found.partitions) == [0, 1]
        assert describe_topic_configs(any_cluster, [topic.name])[topic.name]["retention.ms"].value == "1234567"
        assert created.topic_id == (found.topic_id if version >= 7 else None)
        if version >= 5:
            assert (created.partitions, created.replication_factor) == (2, 1)
            assert created.config["retention.ms"] == ConfigEntry("1234567", "topic")
        else:
            assert (created.partitions, created.config) == (-1, {})


def test_counts_left_to_a_broker_that_is_too_old_for_it_are_refused_before_sending(fake: Any, connect: Any):
    fake.ranges[CreateTopicsRequest.KEY] = (0, 3)
    with pytest.raises(UnsupportedVersion, match="give partitions and replication_factor"):
        create_topics(connect(fake.bootstrap_servers), [NewTopic("t")])
    assert not fake.requests(CreateTopicsRequest)


@pytest.mark.rule(295)
def test_validating_creates_nothing(any_cluster: Any, each_version: Any, name: str):
    for version in each_version(any_cluster, CreateTopicsRequest):
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="validate"):
                create_topics(any_cluster, [NewTopic(name, 1, 1)], validate_only=True)
            continue
        results = create_topics(any_cluster, [NewTopic(name, 3, 1), NewTopic(f"{name}-bad", 1, 7)], validate_only=True)
        assert results[name].topic_id is None
        assert results.failed()[f"{name}-bad"].code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert isinstance(describe_topics(any_cluster, [name])[name], UnknownTopic)


@pytest.mark.rule(295)
@full_scale_only
def test_replicas_are_placed_by_hand(three: Any, name: str):
    created = create_topics(three, [NewTopic(name, assignments=[[2, 3], [3, 1]])]).or_raise()[name]
    assert (created.partitions, created.replication_factor) == (2, 2)
    partitions = three.metadata([name]).topics[name].partitions
    assert [partitions[number].replicas for number in (0, 1)] == [(2, 3), (3, 1)]
    wrong = create_topics(three, [NewTopic(f"{name}-9", assignments=[[9]])])
    assert wrong.failed()[f"{name}-9"].code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.rule(295, 296)
@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("release", ["4.3.1", "2.8.2"])
def test_a_broker_that_may_not_wait_answers_at_once(
    kafka: Any, kafka_release: Any, connect: Any, until: Any, name: str, timeout_ms: int, release: str
):
    """A controller with ZooKeeper goes on with its work; one of KRaft has not begun it."""
    cluster = connect((kafka if release == "4.3.1" else kafka_release(release)).bootstrap_servers)
    error = create_topics(cluster, [NewTopic(name, 1, 1)], timeout_ms=timeout_ms).failed()[name]
    assert (error.code, error.topic) == (ErrorCode.REQUEST_TIMED_OUT, name)
    if release == "2.8.2":
        assert until(lambda: name in describe_topics(cluster, [name]).done())
    else:
        assert isinstance(describe_topics(cluster, [name])[name], UnknownTopic)


@pytest.mark.rule(250)
def test_partitions_are_added(any_cluster: Any, each_version: Any, name: str):
    create_topics(any_cluster, [NewTopic(name, 1, 1)]).or_raise()
    for count, version in enumerate(each_version(any_cluster, CreatePartitionsRequest), start=2):
        results = create_partitions(any_cluster, {name: count, f"{name}-none": 2})
        assert results[name] is None, version
        assert isinstance(results[f"{name}-none"], UnknownTopic)
        assert len(any_cluster.metadata([name], refresh=True).topics[name].partitions) == count
    fewer = create_partitions(any_cluster, {name: 1}).failed()[name]
    assert fewer.code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.rule(313)
def test_added_partitions_are_placed_by_hand_or_by_the_controller(three: Any, until: Any, name: str):
    """Null leaves the choice to the controller; a list is the choice."""

    def replicas(topic: str) -> list[tuple[int, ...]]:
        partitions = describe_topics(three, [topic]).or_raise()[topic].partitions
        return [partitions[number].replicas for number in sorted(partitions)]

    create_topics(three, [NewTopic(name, assignments=[[1, 2]]), NewTopic(f"{name}-b", assignments=[[1]])]).or_raise()
    create_partitions(three, {name: 3, f"{name}-b": 2}, assignments={name: [[3, 1], [2, 3]]}).or_raise()
    # Which broker answers is chance, and each hears of it at its own time.
    assert until(lambda: replicas(name) == [(1, 2), (3, 1), (2, 3)])
    assert until(lambda: len(replicas(f"{name}-b")) == 2)
    too_few = create_partitions(three, {name: 5}, assignments={name: [[1, 2]]}, validate_only=True)
    assert too_few.failed()[name].code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert until(lambda: len(replicas(name)) == 3)


@pytest.mark.rule(296)
def test_every_version_deletes_by_name(any_cluster: Any, each_version: Any, name: str):
    for version in each_version(any_cluster, DeleteTopicsRequest):
        create_topics(any_cluster, [NewTopic(f"{name}-{version}", 1, 1)]).or_raise()
        assert delete_topics(any_cluster, [f"{name}-{version}", name])[f"{name}-{version}"] is None
        assert isinstance(describe_topics(any_cluster, [f"{name}-{version}"])[f"{name}-{version}"], UnknownTopic)


def test_a_topic_is_deleted_by_id_and_its_successor_is_not(cluster: Any, name: str):
    first = create_topic(cluster, name)
    delete_topic(cluster, first)
    second = create_topic(cluster, name)
    results = delete_topics(cluster, [first])
    assert results.failed()[first].code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.metadata([name], refresh=True).topics[name].topic_id == second
    assert delete_topics(cluster, [second])[second] is None
    assert isinstance(describe_topics(cluster, [name])[name], UnknownTopic)


def test_a_topic_that_is_deleted_by_id_is_listed_no_more_when_that_is_told(fake: Any, connect: Any):
    """Brokers hear of it a moment after the controller, which answers."""
    old = UUID(int=9)
    fake.add_topic("t", [1], topic_id=old)
    deleted = DeleteTopicsResponse.DeletableTopicResult(name="t", topic_id=old)
    fake.on(DeleteTopicsRequest, lambda _: DeleteTopicsResponse(responses=[deleted]))

    def heard(seen: Any) -> Any:
        fake.topics.pop("t", None)
        return fake.metadata(seen)

    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata([])
    fake.on(MetadataRequest, fake.metadata, heard)
    delete_topics(cluster, [old]).or_raise()
    assert not fake.topics


def test_a_created_topic_is_the_one_that_is_listed_when_it_is_told(fake: Any, connect: Any):
    """And not the one of its name that was deleted before."""
    old, new = UUID(int=9), UUID(int=10)
    fake.add_topic("t", [1], topic_id=old)
    created = CreateTopicsResponse.CreatableTopicResult(name="t", topic_id=new, num_partitions=1, replication_factor=1)
    fake.on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=[created]))

    def heard(seen: Any) -> Any:
        fake.add_topic("t", [1], topic_id=new)
        return fake.metadata(seen)

    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata([])
    fake.on(MetadataRequest, fake.metadata, heard)
    assert create_topic(cluster, "t") == new
    assert cluster.metadata(["t"]).topics["t"].topic_id == new


def test_what_a_controller_has_done_without_an_answer_in_time_is_done(fake: Any, fakes: Any, connect: Any):
    """A broker that forwards a request answers REQUEST_TIMED_OUT if the controller's response is lost."""

    def create(_: Any) -> CreateTopicsResponse:
        code = ErrorCode.TOPIC_ALREADY_EXISTS if "t" in fake.topics else ErrorCode.REQUEST_TIMED_OUT
        fake.add_topic("t", [1])
        return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="t", error_code=code)])

    def delete(_: Any) -> DeleteTopicsResponse:
        there = fake.topics.pop("t", None)
        code = ErrorCode.REQUEST_TIMED_OUT if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name="t", error_code=code)])

    def grow(_: Any) -> CreatePartitionsResponse:
        there = len(fake.topics["t"].partitions) == 2
        fake.add_topic("t", [1, 1])
        code = ErrorCode.INVALID_PARTITIONS if there else ErrorCode.REQUEST_TIMED_OUT
        result = CreatePartitionsResponse.CreatePartitionsTopicResult(name="t", error_code=code)
        return CreatePartitionsResponse(results=[result])

    fake.on(CreateTopicsRequest, create)
    fake.on(CreatePartitionsRequest, grow)
    fake.on(DeleteTopicsRequest, delete)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    assert create_topics(cluster, [NewTopic("t", 1, 1)])["t"] == CreatedTopic(fakes.TOPIC_ID, 1, -1, {})
    assert create_partitions(cluster, {"t": 2}) == {"t": None}
    assert delete_topics(cluster, ["t"]) == {"t": None}


def test_validating_is_no_creation_after_a_timeout(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    codes = iter([ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS])
    fake.on(
        CreateTopicsRequest,
        lambda _: CreateTopicsResponse(
            topics=[CreateTopicsResponse.CreatableTopicResult(name="t", error_code=next(codes))]
        ),
    )
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    results = create_topics(cluster, [NewTopic("t", 1, 1)], validate_only=True)
    assert isinstance(results["t"], TopicExists)


def test_old_brokers_are_not_asked_to_delete_by_id(fake: Any, connect: Any):
    fake.ranges[DeleteTopicsRequest.KEY] = (1, 5)
    with pytest.raises(UnsupportedVersion, match="by id"):
        delete_topics(connect(fake.bootstrap_servers), [UUID(int=9)])


@pytest.mark.rule(250, 297)
def test_records_are_deleted_up_to_an_offset_and_to_the_high_watermark(any_cluster: Any, each_version: Any, name: str):
    create_topics(any_cluster, [NewTopic(name, 3, 1)]).or_raise()
    first, second, third = (TopicPartition(name, number) for number in range(3))
    send_to(any_cluster, {tp: [Record(value=b"v")] * 10 for tp in (first, second)})
    for cut, version in enumerate(each_version(any_cluster, DeleteRecordsRequest), start=3):
        results = delete_records(any_cluster, {first: cut, second: HIGH_WATERMARK, third: 11})
        assert results.done() == {first: cut, second: 10}, version
        assert results.failed()[third].code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (results.failed()[third].topic, results.failed()[third].partition) == (name, 2)
        starts = list_offsets(any_cluster, dict.fromkeys((first, second), EARLIEST), isolation_level="read_committed")
        assert {tp: start.offset for tp, start in starts.items()} == {first: cut, second: 10}


def test_records_are_deleted_at_every_leader(three: Any, name: str):
    create_topics(three, [NewTopic(name, assignments=[[1, 2], [2, 3], [3, 1]])]).or_raise()
    partitions = [TopicPartition(name, number) for number in range(3)]
    send_to(three, {tp: [Record(value=b"v")] * (tp.partition + 1) for tp in partitions})
    assert delete_records(three, dict.fromkeys(partitions, HIGH_WATERMARK)) == {
        tp: tp.partition + 1 for tp in partitions
    }


def test_a_compacted_topics_records_are_not_deleted(cluster: Any, name: str):
    create_topic(cluster, name, config={"cleanup.policy": "compact"})
    tp = TopicPartition(name, 0)
    assert delete_records(cluster, {tp: 0}).failed()[tp].code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("offset", [7, HIGH_WATERMARK])
def test_records_up_to_the_high_watermark_are_deleted_once(fake: Any, connect: Any, offset: int):
    """A second deletion would be up to a later high watermark."""
    fake.add_topic("t", [1])
    tp, codes = TopicPartition("t", 0), iter([ErrorCode.REQUEST_TIMED_OUT, 0])

    def delete(_: Any) -> DeleteRecordsResponse:
        result = DeleteRecordsResponse.DeleteRecordsPartitionResult(error_code=next(codes), low_watermark=7)
        topic = DeleteRecordsResponse.DeleteRecordsTopicResult(name="t", partitions=[result])
        return DeleteRecordsResponse(topics=[topic])

    fake.on(DeleteRecordsRequest, delete)
    outcome = delete_records(connect(fake.bootstrap_servers, retry_backoff_ms=1), {tp: offset})[tp]
    if offset == HIGH_WATERMARK:
        assert isinstance(outcome, RequestTimedOut)
        assert not outcome.retriable
    else:
        assert outcome == 7
