"""A group's offsets as kafka-python reads them.

Not confluent-kafka: it takes the metadata up to a NUL that need not be there, and now and then reads what lies behind.
"""

from __future__ import annotations

import warnings

from kseg.client import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of how it loads its schemas
    from kafka import KafkaAdminClient


def through_kafka_python(servers: str, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Offset and metadata of each partition that the group has committed."""
    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        found = client.list_group_offsets({group: None})[group]
    finally:
        client.close()
    return {TopicPartition(tp.topic, tp.partition): (at.offset, at.metadata or "") for tp, at in found.items()}
