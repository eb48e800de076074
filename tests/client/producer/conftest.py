"""What the producer's tests share: a producer on any broker, and reading back with a client that is not ours."""

from __future__ import annotations

import importlib.util
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import confluent_kafka
import pytest

from kseg.client import TopicPartition
from kseg.client.producer import KafkaProducer
from kseg.segment_reader.encode.batches import Record


def _beside(name: str) -> ModuleType:
    """A module of this folder: importlib mode puts none of them where imports look."""
    spec = importlib.util.spec_from_file_location(f"producer_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_ScriptedLeader = _beside("scripted_leader").ScriptedLeader


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
        until = time.monotonic() + 120
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


@pytest.fixture
def leader_on(fakes: Any) -> Callable[..., Any]:
    """`leader_on(broker, partitions=1)`: topic "t" with a leader on a scripted broker (scripted_leader.py)."""
    return lambda broker, partitions=1: _ScriptedLeader(broker, fakes, partitions)


@pytest.fixture
def leader(fake: Any, leader_on: Callable[..., Any]) -> Any:
    """One partition's leader on the scripted broker."""
    return leader_on(fake)


@pytest.fixture
def make(fake: Any, producing: Callable[..., KafkaProducer]) -> Callable[..., KafkaProducer]:
    """`make(**properties)`: a producer on the scripted broker, a batch a record and soon tried again."""
    quick = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "linger_ms": 0, "batch_size": 0}
    return lambda **given: producing(fake.bootstrap_servers, **(quick | given))


@pytest.fixture(scope="session")
def numbered() -> Callable[..., list[Record]]:
    """`numbered(count, first=0)`: records whose values tell their order."""
    return lambda count, first=0: [Record(None, b"%05d" % n, (), 1) for n in range(first, first + count)]


@pytest.fixture(scope="session")
def values(numbered: Callable[..., list[Record]]) -> Callable[[int], list[bytes | None]]:
    """`values(count)`: what a log then holds."""
    return lambda count: [record.value for record in numbered(count)]
