"""`kseg produce` on a real broker: what another client reads is what was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition

from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker


def produce(kafka: Any, topic: str, lines: bytes, *more: str) -> Result:
    args = ["produce", topic, "--bootstrap-servers", kafka.bootstrap_servers, *more]
    return CliRunner().invoke(cli, args, input=lines)


def read(kafka: Any, topic: str, partition: int = 0) -> list[Any]:
    """The partition's messages, read by librdkafka."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "reader", "enable.partition.eof": False}
    )
    try:
        place = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        found: list[Any] = []
        while len(found) < end:
            found += consumer.consume(end - len(found), timeout=5)
        return found
    finally:
        consumer.close()


def test_lines_with_keys_and_headers(kafka: Any) -> None:
    topic = kafka.topic(1)
    result = produce(kafka, topic, b"a=1\nb=\n", "--key-separator", "=", "--header", "source=test", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["records"] == 2
    assert document["partitions"] == [{"partition": 0, "records": 2, "first_offset": 0, "last_offset": 1}]
    found = read(kafka, topic)
    assert [(one.key(), one.value(), one.headers()) for one in found] == [
        (b"a", b"1", [("source", b"test")]),
        (b"b", b"", [("source", b"test")]),
    ]


def test_objects_choose_partition_and_time(kafka: Any) -> None:
    topic = kafka.topic(2)
    lines = b'{"key": "k", "value": {"id": 1.10}, "partition": 1, "timestamp": 1000}\n{"value": null, "partition": 1}\n'
    assert produce(kafka, topic, lines, "--format", "json").exit_code == 0
    first, second = read(kafka, topic, 1)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b'{"id": 1.10}', 1000)
    assert (second.key(), second.value()) == (None, None)


def test_a_missing_topic_is_created_when_asked(kafka: Any) -> None:
    topic = kafka.topic(1) + "-new"
    refused = produce(kafka, topic, b"x\n")
    assert refused.exit_code == 2
    assert "add --create" in refused.stderr
    made = produce(kafka, topic, b"x\n", "--create", "--partitions", "3", "--json")
    assert json.loads(made.stdout)["created"] is True
    again = produce(kafka, topic, b"y\n", "--create", "--partitions", "5", "--json")
    assert json.loads(again.stdout)["created"] is False
    assert sum(len(read(kafka, topic, number)) for number in range(3)) == 2


def test_a_bad_line_ends_it_and_says_how_many_were_sent(kafka: Any) -> None:
    topic = kafka.topic(1)
    result = produce(kafka, topic, b'{"value": "x"}\n{"value": "y"}\n{"value"\n', "--format", "json")
    assert result.exit_code == 2
    assert "line 3" in result.stderr
    assert "2 record(s) before it were sent" in result.stderr
    assert [one.value() for one in read(kafka, topic)] == [b"x", b"y"]


def test_a_member_misspelt_is_no_tombstone(kafka: Any) -> None:
    topic = kafka.topic(1)
    result = produce(kafka, topic, b'{"key": "a", "vlaue": 1}\n', "--format", "json")
    assert result.exit_code == 2
    assert result.stderr.count("unknown member 'vlaue'; did you mean value?") == 1
    assert read(kafka, topic) == []


def test_a_partition_that_is_not_there_is_an_error(kafka: Any) -> None:
    result = produce(kafka, kafka.topic(1), b"x\n", "--partition", "7")
    assert result.exit_code == 2
    assert "has no partition 7" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--format", "json", "--key-separator", ":"], "--key-separator needs --format lines"),
        (["--key-separator", ""], "--key-separator is empty"),
        (["--partitions", "2"], "need --create"),
        (["--header", "x"], "NAME=VALUE"),
    ],
)
def test_options_that_do_not_fit(args: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["produce", "t", "--bootstrap", "localhost:1", *args], input=b"")
    assert result.exit_code == 2
    assert message in result.stderr
