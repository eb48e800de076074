"""Records sent to one topic, and where they are then."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import TopicExists, UnknownTopic, error_from_code
from kseg.client.producer.batch import NO_OFFSET, Delivered, Delivery
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.kafka_producer import KafkaProducer
from kseg.jobs.api import bad_argument
from kseg.jobs.records.lines import NewRecord

#: Deliveries that are held before the oldest is waited for.
_MOST_HELD: Final = 20_000


@dataclass(slots=True)
class Sent:
    """The delivered records: their number by partition, with their first and last offset."""

    topic: str
    partitions: dict[int, list[int]] = field(default_factory=dict)
    created: bool = False

    @property
    def records(self) -> int:
        return sum(count for count, _, _ in self.partitions.values())

    def note(self, delivered: Delivered) -> None:
        count, first, last = self.partitions.get(delivered.partition, (0, NO_OFFSET, NO_OFFSET))
        if delivered.offset != NO_OFFSET:
            first = delivered.offset if first == NO_OFFSET else min(first, delivered.offset)
            last = max(last, delivered.offset)
        self.partitions[delivered.partition] = [count + 1, first, last]

    def to_json(self) -> dict[str, Any]:
        def known(offset: int) -> int | None:
            return None if offset == NO_OFFSET else offset

        return {
            "topic": self.topic,
            "created": self.created,
            "records": self.records,
            "partitions": [
                {"partition": number, "records": count, "first_offset": known(first), "last_offset": known(last)}
                for number, (count, first, last) in sorted(self.partitions.items())
            ],
        }


def find_or_create(config: ClientConfig, topic: str, *, create: bool, partitions: int, replication_factor: int) -> bool:
    """Look for the topic, and create it if asked; returns whether it was created. -1: the broker's default.

    A topic that is there keeps its number of partitions.

    Raises:
        ConfigurationError: there is no such topic, and it is not to be created.
        KafkaError: the cluster cannot be asked, or rejects the topic.
    """
    with Cluster(config) as cluster:
        found = cluster.metadata([topic], refresh=True).topics[topic]
        if found.error is None:
            return False
        error = error_from_code(int(found.error), "Metadata", topic=topic)
        if not isinstance(error, UnknownTopic):
            raise error
        if not create:
            raise bad_argument("TOPIC", f"the cluster has no topic {topic}", "add --create, or correct the name")
        try:
            create_topic(cluster, topic, partitions=partitions, replication_factor=replication_factor)
        except TopicExists:
            return False
    return True


def produce(config: ProducerConfig, sent: Sent, records: Iterable[NewRecord]) -> None:
    """Send records to `sent.topic` and note each that is delivered; those before an error are delivered and noted.

    Raises KafkaError for the first record that was not delivered, and what iterating `records` raises.
    """
    held: deque[Delivery] = deque()
    with KafkaProducer(config) as producer:
        try:
            for record in records:
                held.append(
                    producer.send(
                        sent.topic,
                        record.value,
                        record.key,
                        headers=record.headers,
                        timestamp=record.timestamp,
                        partition=record.partition,
                    )
                )
                if len(held) > _MOST_HELD:
                    sent.note(held.popleft().result())
        finally:
            producer.flush()
            for delivery in held:
                if delivery.exception() is None:
                    sent.note(delivery.result())
        for delivery in held:
            delivery.result()
