"""Topics for the source's tests, made by librdkafka, and what it reads back: an implementation that is not ours."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.client.admin.transactions import describe_producers

Row = tuple[int, int, bytes | None, bytes | None]
"""partition, offset, key, value"""


@pytest.fixture(scope="session")
def client_config(kafka: Any) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="kseg-test")


@pytest.fixture
def cluster(client_config: ClientConfig) -> Iterator[Cluster]:
    with Cluster(client_config) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def produce(kafka: Any) -> Callable[..., None]:
    """produce(topic, [(partition, key, value, headers, timestamp)], **librdkafka settings), flushed."""

    def produce(topic: str, records: list[tuple[Any, ...]], **settings: Any) -> None:
        # Idempotent, so that a batch that is sent again does not land behind its successors.
        ordered = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 50, "enable.idempotence": True}
        producer = Producer({**ordered, **settings})
        for partition, key, value, *rest in records:
            headers = rest[0] if rest else None
            timestamp = rest[1] if len(rest) > 1 else 0
            producer.produce(topic, partition=partition, key=key, value=value, headers=headers, timestamp=timestamp)
            producer.poll(0)
        assert producer.flush(120) == 0

    return produce


@pytest.fixture(scope="session")
def read_back(kafka: Any) -> Callable[[str, int], list[Row]]:
    """What librdkafka reads of a topic's partitions under read_committed, up to the last stable offset."""

    def read_back(topic: str, partitions: int = 1) -> list[Row]:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": "read-back",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([Place(topic, number, 0) for number in range(partitions)])
        rows: list[Row] = []
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(120)
            assert message is not None, "librdkafka reads nothing"
            if message.error():
                ended.add(message.partition())
            else:
                rows.append((message.partition(), message.offset(), message.key(), message.value()))
        consumer.close()
        return sorted(rows)

    return read_back


@dataclass
class Transactions:
    """Interleaved transactions on partition 0 of a topic; `committed` are the values that count."""

    topic: str
    servers: str
    committed: list[bytes] = field(default_factory=list)

    def run(self, *, producers: int, steps: int, seed: int, open_at_end: bool) -> None:
        """Random steps: begin, write a batch of 1 to 6 records, commit or abort (half of them)."""
        choice = random.Random(seed)
        writers = [
            Producer(
                {
                    "bootstrap.servers": self.servers,
                    "transactional.id": f"{self.topic}-{number}",
                    # One that is open stays open while a busy machine reads what lies around it.
                    "transaction.timeout.ms": 900_000,
                    "compression.type": choice.choice(["none", "lz4", "zstd"]),
                    "linger.ms": 20,
                }
            )
            for number in range(producers)
        ]
        for writer in writers:
            writer.init_transactions(60)
        pending: dict[int, list[bytes]] = {}
        for step in range(steps):
            number = choice.randrange(producers)
            if number not in pending:
                writers[number].begin_transaction()
                pending[number] = []
            elif choice.random() < 0.4:
                self._decide(writers[number], pending.pop(number), abort=choice.random() < 0.5)
                continue
            values = [f"{step}-{i}".encode() for i in range(choice.randint(1, 6))]
            for value in values:
                writers[number].produce(self.topic, partition=0, key=b"k", value=value)
            writers[number].flush(60)
            pending[number] += values
        kept = pending.pop(0, None) if open_at_end else None
        for number, values in pending.items():
            self._decide(writers[number], values, abort=True)
        if open_at_end and kept is None:
            writers[0].begin_transaction()
            writers[0].produce(self.topic, partition=0, value=b"undecided")
            writers[0].flush(60)
        self.writers = writers
        self._settle(open_at_end)

    def _settle(self, undecided: int) -> None:
        """Wait until so many are open: a producer is told of a transaction's end before its marker is written."""
        place = TopicPartition(self.topic, 0)
        config = ClientConfig.from_properties({"bootstrap.servers": self.servers}, client_id="kseg-test")
        until = time.monotonic() + 60
        with Cluster(config) as cluster:
            while True:
                known = describe_producers(cluster, [place]).or_raise()[place]
                if sum(producer.transaction_start is not None for producer in known) == undecided:
                    return
                assert time.monotonic() < until, known
                time.sleep(0.05)

    def _decide(self, writer: Producer, values: list[bytes], *, abort: bool) -> None:
        if abort:
            writer.abort_transaction(60)
        else:
            writer.commit_transaction(60)
            self.committed += values


@pytest.fixture
def transactions(kafka: Any) -> Transactions:
    return Transactions(kafka.topic(prefix="transactions"), kafka.bootstrap_servers)
