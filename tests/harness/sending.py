"""Many records at once to a producer."""

from __future__ import annotations

from collections.abc import Iterable

from kseg.client.producer import KafkaProducer
from kseg.client.producer.batch import Delivery
from kseg.segment_reader.encode.batches import Record


def send_all(
    producer: KafkaProducer, topic: str, records: Iterable[Record], *, partition: int | None = None
) -> list[Delivery]:
    """Send the records with their timestamps (-1: none)."""
    return [
        producer.send(topic, value, key, headers=headers, timestamp=timestamp, partition=partition)
        for key, value, headers, timestamp in records
    ]
