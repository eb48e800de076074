"""The size of partitions' logs: what brokers answer is what their files show."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from kseg.client import EARLIEST, TopicPartition, list_offsets
from kseg.client.offsets import EARLIEST_LOCAL
from kseg.etl.source.brokers.logs import BrokerLogs
from kseg.etl.source.files.logs import FileLogs
from kseg.etl.source.log_size import ASSUMED_BYTES, LogSize, mean_sizes
from kseg.etl.source.origin import LogFiles


def test_brokers_and_files_show_the_same(cluster: Any, kafka: Any) -> None:
    topic = kafka.topic(3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(50):
        producer.produce(topic, b"x" * 1000, partition=0)
        producer.produce(topic, b"%d" % number, partition=1)
    assert producer.flush(60) == 0
    partitions = [TopicPartition(topic, number) for number in range(3)]
    told = BrokerLogs(cluster).sizes(partitions)
    assert told == FileLogs(LogFiles(tuple(map(str, kafka.log_dirs)))).sizes(partitions)
    assert told[partitions[0]].offsets == told[partitions[1]].offsets == 50
    assert told[partitions[2]] == LogSize(0, 0)
    means = mean_sizes(told, partitions)
    assert 1000 < means[partitions[0]] < 1100
    assert 1 < means[partitions[1]] < 70


def test_the_local_log_begins_with_the_log_where_nothing_is_tiered(cluster: Any, kafka: Any) -> None:
    tp = TopicPartition(kafka.topic(), 0)
    local, start = (
        list_offsets(cluster, {tp: mark}, isolation_level="read_uncommitted")[tp].offset
        for mark in (EARLIEST_LOCAL, EARLIEST)
    )
    assert local == start == 0


def test_a_size_that_is_not_known_is_the_largest_of_the_others() -> None:
    first, second, third = (TopicPartition("t", number) for number in range(3))
    sizes = {first: LogSize(1000, 10), second: LogSize(50, 10)}
    assert mean_sizes(sizes, [first, second, third]) == {first: 100.0, second: 5.0, third: 100.0}


def test_an_empty_log_says_nothing_about_sizes() -> None:
    """With tiered storage, leaders' disks may have nothing of a partition but its offsets."""
    first, second = (TopicPartition("t", number) for number in range(2))
    for empty in ({}, {first: LogSize(0, 0)}, {first: LogSize(0, 5)}):
        assert mean_sizes(empty, [first]) == {first: ASSUMED_BYTES}
        assert mean_sizes(empty | {second: LogSize(50, 10)}, [first, second]) == {first: 5.0, second: 5.0}
