"""The embedded broker starts, answers, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.broker


def test_a_record_comes_back_from_the_shared_broker(kafka: Any) -> None:
    from confluent_kafka import Consumer, Producer

    topic = kafka.topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, key=b"k", value=b"v", partition=1)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value(), message.partition(), message.offset()) == (b"k", b"v", 1, 0)
    assert (kafka.log_dirs[0] / f"{topic}-1" / "00000000000000000000.log").stat().st_size > 0
