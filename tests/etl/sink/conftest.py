"""What the sink's tests share: a session that knows the format, and topics read back by librdkafka."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from etl.source.datasource import KsegDataSource


@pytest.fixture(scope="session")
def session(spark: Any) -> Any:
    """The shared session with our format; Spark finds it by itself where the package is installed as a whole."""
    if importlib.util.find_spec("pyspark_kseg") is None:
        spark.dataSource.register(KsegDataSource)
    return spark


@pytest.fixture(scope="session")
def read_topic(kafka: Any) -> Callable[..., list[Any]]:
    """`read_topic(topic, partitions)`: all messages under read_committed, in partition and offset order."""

    def read(
        topic: str, partitions: int = 1, *, servers: str | None = None, isolation: str = "read_committed"
    ) -> list[Any]:
        consumer = Consumer(
            {
                "bootstrap.servers": servers or kafka.bootstrap_servers,
                "group.id": str(uuid.uuid4()),
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([Place(topic, number, 0) for number in range(partitions)])
        found: list[Any] = []
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None, "librdkafka reads nothing"
            if message.error():
                ended.add(message.partition())
            else:
                found.append(message)
        consumer.close()
        return sorted(found, key=lambda m: (m.partition(), m.offset()))

    return read
