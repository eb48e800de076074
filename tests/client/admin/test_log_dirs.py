"""Where replicas lie: told by every broker for itself, and moved within one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.client import BrokerUnavailable, RequestTimedOut, TopicPartition
from kseg.client.admin.log_dirs import Replica, alter_replica_log_dirs, describe_log_dirs
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.placement import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kseg.segment_reader.encode.batches import Record
from sending import send_to


@pytest.mark.rule(250, 311)
def test_every_version_tells_sizes_by_partition(any_cluster: Any, each_version: Any, name: str):
    create_topics(any_cluster, [NewTopic(name, 2, 1)]).or_raise()
    tp = TopicPartition(name, 1)
    send_to(any_cluster, {tp: [Record(value=b"v" * 1000)]})
    for version in each_version(any_cluster, DescribeLogDirsRequest):
        [folder] = describe_log_dirs(any_cluster, [tp]).or_raise()[1]
        assert Path(folder.path).is_dir()
        assert (Path(folder.path) / str(tp)).is_dir()
        assert folder.error is None
        assert list(folder.partitions) == [tp]
        assert 1000 < folder.partitions[tp].size < 1200
        assert not folder.partitions[tp].is_future
        assert folder.partitions[tp].offset_lag == 0
        if version >= 4:
            assert folder.total_bytes > folder.usable_bytes > 0
        else:
            assert (folder.total_bytes, folder.usable_bytes) == (-1, -1)


@pytest.mark.rule(311)
def test_none_is_all_partitions_and_an_empty_collection_is_none(cluster: Any, kafka: Any):
    tp = TopicPartition(kafka.topic(), 0)
    assert tp in describe_log_dirs(cluster).or_raise()[1][0].partitions
    assert [folder.partitions for folder in describe_log_dirs(cluster, []).or_raise()[1]] == [{}]


def test_every_broker_tells_of_its_own_folders(three: Any, until: Any, name: str):
    create_topics(three, [NewTopic(name, assignments=[[1, 2], [2, 3]])]).or_raise()
    partitions = [TopicPartition(name, number) for number in (0, 1)]

    def held() -> dict[int, set[TopicPartition]]:
        told = describe_log_dirs(three, partitions).or_raise()
        assert all(len(folders) == 2 for folders in told.values())
        return {node: {tp for folder in folders for tp in folder.partitions} for node, folders in told.items()}

    # Followers make their copies when they hear of them.
    assert until(lambda: held() == {1: {partitions[0]}, 2: {*partitions}, 3: {partitions[1]}})


def test_a_broker_that_does_not_answer_keeps_the_others_answers(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    result = DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="/a", error_code=0)
    brokers[1].on(DescribeLogDirsRequest, lambda _: DescribeLogDirsResponse(results=[result]))
    brokers[2].on(DescribeLogDirsRequest, lambda _: fakes.CLOSE)
    told = describe_log_dirs(connect(brokers.bootstrap_servers, default_api_timeout_ms=2000))
    assert [folder.path for folder in told.done()[1]] == ["/a"]
    # The time may end while it is asked once more.
    assert isinstance(told[2], BrokerUnavailable | RequestTimedOut)


@pytest.mark.rule(310)
def test_every_version_moves_a_replica_to_the_brokers_other_folder(
    three: Any, each_version: Any, name: str, until: Any
):
    create_topics(three, [NewTopic(name, assignments=[[2, 3]])]).or_raise()
    tp = TopicPartition(name, 0)
    send_to(three, {tp: [Record(value=b"v" * 1000)] * 10})

    def place(node: int) -> str | None:
        found = [folder for folder in describe_log_dirs(three, [tp]).or_raise()[node] if tp in folder.partitions]
        return found[0].path if len(found) == 1 and not found[0].partitions[tp].is_future else None

    elsewhere = until(lambda: place(3))
    for _ in each_version(three, AlterReplicaLogDirsRequest):
        before = until(lambda: place(2))
        [to] = [folder.path for folder in describe_log_dirs(three).or_raise()[2] if folder.path != before]
        alter_replica_log_dirs(three, {Replica(2, name, 0): to}).or_raise()
        assert until(lambda to=to: place(2) == to)
        assert place(3) == elsewhere


def test_moves_are_told_replica_by_replica(three: Any, name: str, until: Any):
    create_topics(three, [NewTopic(name, assignments=[[1]])]).or_raise()
    tp = TopicPartition(name, 0)
    # The others may tell of a topic before the broker that leads it has made its folder.
    assert until(lambda: any(tp in folder.partitions for folder in describe_log_dirs(three, [tp]).or_raise()[1]))
    folders = {node: told[0].path for node, told in describe_log_dirs(three).or_raise().items()}
    results = alter_replica_log_dirs(
        three,
        {
            Replica(1, name, 0): folders[1],
            Replica(2, name, 0): folders[2],
            Replica(3, name, 0): "/nowhere/at/all",
        },
    )
    assert results[Replica(1, name, 0)] is None
    # Noted for when the broker gets the replica.
    assert results.failed()[Replica(2, name, 0)].code == ErrorCode.REPLICA_NOT_AVAILABLE
    refused = results.failed()[Replica(3, name, 0)]
    assert (refused.code, refused.topic, refused.partition, refused.broker) == (
        ErrorCode.LOG_DIR_NOT_FOUND,
        name,
        0,
        "3",
    )
