"""The topic's and the group's offsets, as the broker reports them to another client (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

_TIMEOUT = 30.0
_NOT_YET = {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}


@dataclass(frozen=True)
class DemoPartition:
    """One partition by the broker's answer. ``committed``: the group's offset, -1 where it has none."""

    partition: int
    committed: int
    metadata: str
    last_stable_offset: int
    high_watermark: int


def partition_states(bootstrap_servers: str, group: str, topic: str, partitions: int) -> list[DemoPartition]:
    """Offsets of a topic and of a group in it, by partition. Raises confluent_kafka.KafkaException."""
    from confluent_kafka import Consumer, TopicPartition

    from kseg.client import Cluster, committed_offsets
    from kseg.client import TopicPartition as TopicPartitionOfOurs
    from kseg.client.config import ClientConfig

    addresses = [TopicPartition(topic, partition) for partition in range(partitions)]
    stable, high = ends(bootstrap_servers, addresses)
    # A consumer that only asks joins no group: the group stays without members, as the job demands it.
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 2})
    try:
        committed = {found.partition: found for found in _committed(consumer, addresses)}
    finally:
        consumer.close()
    # confluent-kafka reads the metadata beyond its end: bytes that no broker sent, at times no UTF-8 either.
    with Cluster(ClientConfig.from_properties({"bootstrap.servers": bootstrap_servers}, client_id="demo")) as cluster:
        notes = committed_offsets(cluster, group)
    return [
        DemoPartition(
            partition,
            max(-1, committed[partition].offset),
            notes[address].metadata or "" if (address := TopicPartitionOfOurs(topic, partition)) in notes else "",
            stable[partition],
            high[partition],
        )
        for partition in range(partitions)
    ]


def ends(bootstrap_servers: str, addresses: list[TopicPartition]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Last stable offsets and high watermarks of a topic, by partition. Raises confluent_kafka.KafkaException."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})

    def latest(level: IsolationLevel) -> Mapping[int, int]:
        asked = {address: OffsetSpec.latest() for address in addresses}
        offsets = admin.list_offsets(asked, isolation_level=level, request_timeout=_TIMEOUT)
        return {address.partition: future.result(_TIMEOUT).offset for address, future in offsets.items()}

    return latest(IsolationLevel.READ_COMMITTED), latest(IsolationLevel.READ_UNCOMMITTED)


def _committed(consumer: Consumer, addresses: list[TopicPartition]) -> list[TopicPartition]:
    """The group's offsets. A coordinator that has just been chosen first reads what its predecessor left."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            return list(consumer.committed(addresses, _TIMEOUT))
        except KafkaException as failure:
            if failure.args[0].name() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
