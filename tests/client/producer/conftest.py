"""What the producer's tests share: a producer on any broker, and reading back with a client that is not ours."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from client import TopicPartition
from client.producer import KafkaProducer


@pytest.fixture
def producing() -> Iterator[Callable[..., KafkaProducer]]:
    """`producing(bootstrap_servers, **properties)` gives a producer; underscores in names stand for dots."""
    started: list[KafkaProducer] = []

    def make(
        bootstrap_servers: str, *, partitioner: Any = None, identity: Any = None, **given: object
    ) -> KafkaProducer:
        properties = {name.replace("_", "."): str(value) for name, value in given.items()}
        properties["bootstrap.servers"] = bootstrap_servers
        started.append(KafkaProducer(properties, partitioner=partitioner, identity=identity))
        return started[-1]

    yield make
    for producer in started:
        producer.close(0)


@pytest.fixture
def read_back() -> Callable[..., list[Any]]:
    """`read_back(servers, topic, partition)` gives all messages of a partition, as confluent-kafka reads them."""

    def read(servers: str, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Any]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": str(uuid.uuid4()),
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "check.crcs": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        messages: list[Any] = []
        until = time.monotonic() + 60
        try:
            while time.monotonic() < until:
                message = consumer.poll(1)
                if message is None:
                    continue
                if message.error():
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                    return messages
                messages.append(message)
        finally:
            consumer.close()
        raise AssertionError(f"no end of {TopicPartition(topic, partition)} in sight")

    return read
