"""Records to topics with our own producer, for tests that are about something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kseg.client import Cluster, TopicPartition
from kseg.client.producer import DeliveredBatch, Delivery, KafkaProducer, ProducerConfig
from kseg.client.transactions.producer_identity import TransactionIdentity
from kseg.client.transactions.transaction import Transaction
from kseg.segment_reader.encode.batches import Record
from kseg.segment_reader.encode.bodies import encode_body


def send_all(
    producer: KafkaProducer, topic: str, records: Iterable[Record], *, partition: int | None = None
) -> list[Delivery]:
    """Send the records with their timestamps (-1: none)."""
    return [
        producer.send(topic, value, key, headers=headers, timestamp=timestamp, partition=partition)
        for key, value, headers, timestamp in records
    ]


def producer_on(
    cluster: Cluster,
    transactional_id: str | None = None,
    *,
    identity: TransactionIdentity | None = None,
    **given: Any,
) -> KafkaProducer:
    """A producer that connects as the cluster does. given: other fields of its configuration.

    identity: of a transaction that somebody else began, and will end or leave open.
    """
    config = ProducerConfig(cluster.config, transactional_id=transactional_id, **given)
    return KafkaProducer(config, identity=identity)


def send_batches(
    producer: KafkaProducer, records: Mapping[TopicPartition, Sequence[Record]]
) -> dict[TopicPartition, DeliveredBatch]:
    """One batch for each partition, waited for; where its first record is."""
    deliveries = {tp: producer.send_body(tp, encode_body(list(batch))) for tp, batch in records.items()}
    return {tp: delivery.result() for tp, delivery in deliveries.items()}


def send_to(
    cluster: Cluster, records: Mapping[TopicPartition, Sequence[Record]], **given: Any
) -> dict[TopicPartition, DeliveredBatch]:
    """`send_batches` with a producer of its own."""
    with producer_on(cluster, **given) as producer:
        return send_batches(producer, records)


def begin_with(
    cluster: Cluster, transactional_id: str, records: Mapping[TopicPartition, Sequence[Record]]
) -> Transaction:
    """A transaction that has written these records, and is open."""
    transaction = Transaction(cluster, transactional_id)
    transaction.begin()
    transaction.add_partitions(list(records))
    with producer_on(cluster, identity=transaction.identity) as producer:
        send_batches(producer, records)
    return transaction
