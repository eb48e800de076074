"""A cluster's topics with partitions, offsets, bytes, the latest time and the rate.

Each figure is one question to all brokers (ListOffsets, DescribeLogDirs, DescribeConfigs). What may not be asked, or
is asked of a broker that is too old, is None; partitions without a leader are left out of the sums and counted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kseg.client.admin.configs import describe_topic_configs
from kseg.client.admin.log_dirs import describe_log_dirs
from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_LEADER, TopicMetadata
from kseg.client.errors import KafkaError, UnknownTopic, error_from_code
from kseg.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset, TimeOrMark, list_offsets
from kseg.client.protocol.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: offsets [start, end), bytes of all replicas, the latest timestamp in ms, offsets per second."""

    topic: str
    partition: int
    leader: int | None
    replicas: int
    in_sync: int
    start: int | None = None
    end: int | None = None
    size: int | None = None
    latest: int | None = None
    rate: float | None = None

    @property
    def records(self) -> int | None:
        """Offsets in the log: an upper bound of the records, since markers and compacted records have offsets too."""
        return None if self.start is None or self.end is None else self.end - self.start

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": self.leader,
            "replicas": self.replicas,
            "in_sync": self.in_sync,
            "start": self.start,
            "end": self.end,
            "records": self.records,
            "bytes": self.size,
            "last_record": instant_text(self.latest),
            "per_second": self.rate,
        }


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic. cleanup: its `cleanup.policy`; None where its configuration may not be read."""

    name: str
    internal: bool
    cleanup: str | None
    partitions: tuple[PartitionState, ...]

    def to_json(self) -> dict[str, Any]:
        """Sums over the partitions whose values are known."""
        known = [one for one in self.partitions if one.leader is not None]
        times = [one.latest for one in known if one.latest is not None]
        return {
            "topic": self.name,
            "partitions": len(self.partitions),
            "without_leader": len(self.partitions) - len(known),
            "replicas": max((one.replicas for one in self.partitions), default=0),
            "records": _sum(one.records for one in known),
            "bytes": _sum(one.size for one in known),
            "last_record": instant_text(max(times, default=None)),
            "per_second": _sum(one.rate for one in known),
            "cleanup": self.cleanup,
        }


def describe_topics(
    cluster: Cluster, names: Collection[str] | None = None, *, internal: bool = False, minutes: float = 5
) -> list[TopicState]:
    """The topics of these names, sorted; None: all, Kafka's own with `internal`. The rate is that of the last minutes.

    Raises:
        UnknownTopic: the cluster has no topic of such a name.
        KafkaError: the cluster cannot be asked.
    """
    found = cluster.metadata(None if names is None else sorted(set(names)), refresh=True).topics
    topics = [_sound(topic) for _, topic in sorted(found.items()) if names is not None or internal or not _own(topic)]
    led = [
        TopicPartition(topic.name, number)
        for topic in topics
        for number, partition in topic.partitions.items()
        if partition.leader_id != NO_LEADER
    ]
    starts = _listed(cluster, dict.fromkeys(led, EARLIEST))
    ends = _listed(cluster, dict.fromkeys(led, LATEST))
    latest = _optional(cluster, dict.fromkeys(led, MAX_TIMESTAMP))
    since = int(time.time() * 1000 - minutes * 60_000)
    recent = _optional(cluster, dict.fromkeys(led, since))
    sizes = _sizes(cluster, led)
    policies = _policies(cluster, [topic.name for topic in topics])

    def state(topic: TopicMetadata, number: int) -> PartitionState:
        partition, tp = topic.partitions[number], TopicPartition(topic.name, number)
        led = partition.leader_id != NO_LEADER
        shape = (topic.name, number, partition.leader_id if led else None, len(partition.replicas), len(partition.isr))
        if not led:
            return PartitionState(*shape)
        rate = None
        if (first := recent.get(tp)) is not None:
            rate = max(0, ends[tp].offset - first.offset) / (minutes * 60) if first.offset >= 0 else 0.0
        newest = latest.get(tp)
        return PartitionState(
            *shape,
            starts[tp].offset,
            ends[tp].offset,
            sizes.get(tp),
            newest.timestamp if newest is not None and newest.timestamp >= 0 else None,
            rate,
        )

    return [
        TopicState(
            topic.name,
            _own(topic),
            policies.get(topic.name),
            tuple(state(topic, number) for number in sorted(topic.partitions)),
        )
        for topic in topics
    ]


def instant_text(millis: int | None) -> str | None:
    """ISO 8601 in UTC with milliseconds; a time that no calendar has as the number that it is."""
    if millis is None:
        return None
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(millis)


def _own(topic: TopicMetadata) -> bool:
    return topic.is_internal or topic.name.startswith("__")


def _sound(topic: TopicMetadata) -> TopicMetadata:
    if topic.error is not None:
        error = error_from_code(int(topic.error), "Metadata", topic=topic.name)
        if isinstance(error, UnknownTopic):
            error = UnknownTopic("the cluster has no such topic", topic=topic.name, retriable=False)
        raise error
    return topic


def _listed(cluster: Cluster, wanted: Mapping[TopicPartition, TimeOrMark]) -> dict[TopicPartition, ListedOffset]:
    return list_offsets(cluster, wanted, isolation_level="read_uncommitted") if wanted else {}


def _optional(cluster: Cluster, wanted: Mapping[TopicPartition, TimeOrMark]) -> dict[TopicPartition, ListedOffset]:
    """Nothing where brokers are too old for the question, or a topic's messages have no times."""
    try:
        return _listed(cluster, wanted)
    except KafkaError as error:
        if error.retriable:
            raise
        return {}


def _sizes(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of all replicas. Nothing without the right to describe the cluster; brokers that are away are left out."""
    if not partitions:
        return {}
    try:
        by_broker = describe_log_dirs(cluster, partitions)
    except KafkaError:
        return {}
    sizes: dict[TopicPartition, int] = {}
    for folders in by_broker.done().values():
        for folder in folders:
            for tp, found in folder.partitions.items():
                sizes[tp] = sizes.get(tp, 0) + (0 if found.is_future else found.size)
    return sizes


def _policies(cluster: Cluster, names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    try:
        configs = describe_topic_configs(cluster, names)
    except KafkaError:
        return {}
    return {name: str(entry.value) for name, one in configs.items() if (entry := one.get("cleanup.policy")) is not None}


def _sum(values: Any) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
