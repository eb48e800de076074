"""What the sink's tests share: a session that knows the format, and topics read back by librdkafka."""

from __future__ import annotations

import importlib.util
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from kseg.etl.spark_format.datasource import KsegDataSource


@pytest.fixture(scope="session")
def session(spark: Any) -> Any:
    """The shared session with our format; Spark finds it by itself where the package is installed as a whole."""
    if importlib.util.find_spec("pyspark_kseg") is None:
        spark.dataSource.register(KsegDataSource)
    return spark


@pytest.fixture(scope="session")
def read_topic(kafka: Any) -> Callable[..., list[Any]]:
    """`read_topic(topic, partitions)`: all messages under read_committed, in partition and offset order, once every
    transaction in the topic is decided and has its markers."""

    def read(
        topic: str, partitions: int = 1, *, servers: str | None = None, isolation: str = "read_committed"
    ) -> list[Any]:
        places = [Place(topic, number, 0) for number in range(partitions)]

        def consumer_of(level: str) -> Consumer:
            return Consumer(
                {
                    "bootstrap.servers": servers or kafka.bootstrap_servers,
                    "group.id": str(uuid.uuid4()),
                    "isolation.level": level,
                    "enable.partition.eof": True,
                }
            )

        # EndTxn is answered before the markers are written: until then read_committed ends in front of the transaction.
        stable, latest = consumer_of("read_committed"), consumer_of("read_uncommitted")
        deadline = time.monotonic() + 60
        for place in places:
            while stable.get_watermark_offsets(place, 30) != latest.get_watermark_offsets(place, 30):
                assert time.monotonic() < deadline, f"a transaction stays open in {place}"
                time.sleep(0.05)
        stable.close()
        latest.close()

        consumer = consumer_of(isolation)
        consumer.assign(places)
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
