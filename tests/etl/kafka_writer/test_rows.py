"""Rows that are passed to a producer, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kseg.client import TopicPartition
from kseg.client.errors import RecordTooLarge
from kseg.client.producer import KafkaProducer
from kseg.etl.kafka_writer.columns import RowColumns
from kseg.etl.kafka_writer.rows import BadRow, PartitionWritten, RowWriter

pytestmark = pytest.mark.broker

COLUMNS = RowColumns(value=0, key=None, topic=None, partition=None, headers=None, timestamp=None)


def write(kafka: Any, topic: str, values: list[bytes]) -> dict[TopicPartition, PartitionWritten]:
    """All rows in one batch, whatever the topic allows."""
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": "1000000"}) as producer:
        writer = RowWriter(producer, COLUMNS, topic)
        writer.write(iter([pa.record_batch({"value": pa.array(values, pa.binary())})]))
        return writer.finish()


def test_a_row_that_the_topic_does_not_allow_fails_the_write_although_its_batch_was_split(kafka: Any, read_topic: Any):
    topic = kafka.topic(config={"max.message.bytes": "5000"})
    with pytest.raises(RecordTooLarge) as caught:
        write(kafka, topic, [b"small", b"x" * 6000])
    assert (caught.value.topic, caught.value.partition) == (topic, 0)
    assert [message.value() for message in read_topic(topic)] == [b"small"]


def test_rows_of_a_split_batch_are_counted_to_the_last(kafka: Any, read_topic: Any):
    topic = kafka.topic(config={"max.message.bytes": "5000"})
    values = [b"%02d" % number + b"x" * 1000 for number in range(30)]
    assert write(kafka, topic, values) == {TopicPartition(topic, 0): PartitionWritten(30, 0, 29)}
    assert [message.value() for message in read_topic(topic)] == values


@pytest.mark.parametrize("micros", [-1, -1000, -(10**15)])
def test_a_time_before_1970_is_a_bad_row(kafka: Any, read_topic: Any, micros: int):
    topic = kafka.topic(config={"compression.type": "gzip"})
    times = pa.array([0, None, micros], pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"value": pa.array([b"a", b"b", b"c"]), "timestamp": times})
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        writer = RowWriter(producer, replace(COLUMNS, timestamp=1), topic)
        with pytest.raises(BadRow, match="before 1970") as caught:
            writer.write(iter([rows.slice(0, 2), rows]))
    assert caught.value.address["row"] == 4
