"""Which columns a DataFrame for Kafka has to have, and what is said of those that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import StructType

from kseg.etl.errors import ConfigurationError
from kseg.etl.kafka_writer.columns import row_columns
from kseg.etl.kafka_writer.options import WriteOptions


@pytest.fixture
def schema(spark: Any) -> Callable[[str], StructType]:
    """A schema from its DDL, which Spark alone can read."""
    return StructType.fromDDL


def test_the_columns_of_sparks_sink_and_a_timestamp_are_found(schema: Any):
    found = row_columns(
        schema("timestamp timestamp, topic string, headers array<struct<key:string,value:binary>>, value binary, "
               "partition int, key string"), None
    )  # fmt: skip
    assert (found.timestamp, found.topic, found.headers, found.value, found.partition, found.key) == (0, 1, 2, 3, 4, 5)


def test_a_given_topic_goes_before_the_column_and_value_alone_is_enough(schema: Any):
    assert row_columns(schema("value string"), "t").key is None
    assert row_columns(schema("value string, topic string"), "t").topic is None


@pytest.mark.parametrize(("ddl", "topic", "wrong"), [
    ("key string", "t", {"value"}),
    ("value string", None, {"topic"}),
    ("value int, key double, topic int, partition long, headers map<string,string>, timestamp long", None,
     {"value", "key", "topic", "partition", "headers", "timestamp"}),
    ("value string, offset long", "t", {"offset"}),
    ("value string, Value binary", "t", {"Value"}),
])  # fmt: skip
def test_every_fault_is_told_at_once(schema: Any, ddl: str, topic: str | None, wrong: set[str]):
    with pytest.raises(ConfigurationError) as caught:
        row_columns(schema(ddl), topic)
    assert {fault.path for fault in caught.value.faults} == wrong


def test_options_lead_to_a_producer():
    options = WriteOptions.parse(
        {"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.acks": "1", "Kafka.Compression.Type": "lz4"}
    )
    assert options.topic == "t"
    assert (options.config.acks, options.config.idempotent, options.config.compression) == (1, False, "lz4")
    assert options.config.batch_size == 262144


@pytest.mark.parametrize(("options", "wrong", "words"), [
    ({"kafka.transactional.id": "tx"}, "kafka.transactional.id", "kseg.write_kafka"),
    ({"kafka.value.serializer": "x"}, "kafka.value.serializer", "DataFrame"),
    ({"kafka.acks": "2"}, "kafka.acks", "producing.md"),
    ({"topic": " "}, "topic", "empty"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused(options: dict[str, str], wrong: str, words: str):
    with pytest.raises(ConfigurationError) as caught:
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1"} | options)
    [fault] = caught.value.faults
    assert fault.path == wrong
    assert words in str(fault)
