"""Cached metadata of a cluster: brokers, topics, partitions and their leaders, with an age.

The values are frozen; `MetadataCache` merges each response into a new value. Two rules prevent a broker with old
metadata from overwriting newer metadata (KIP-320): a leader is not replaced by a leader of an older epoch if the topic
id is the same; and an error for a topic changes only that topic.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from kseg.client.errors import Code, LeaderNotAvailable, ProtocolFault, UnknownTopic, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.topic_names import is_topic_name
from kseg.client.protocol.versions import all_topics, asking_creates_topics
from kseg.client.wire.broker import Endpoint

NO_LEADER: Final = -1
NO_ID: Final = UUID(int=0)

#: Kafka's own topics, which version 0 of Metadata does not mark.
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port, self.node_id)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition. Leader -1: there is none at the moment. Leader epoch -1: unknown (brokers before 2.1)."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic. `error` is set if the cluster could not describe the topic (unknown, not authorized …)."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    error: Code | None = None


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One state of the cluster; `controller_id` is -1 if the controller is unknown."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Broker]
    topics: dict[str, TopicMetadata]


class Leader(NamedTuple):
    """A partition's leader: broker, leader epoch (-1: unknown), and the topic's id (None: unknown)."""

    broker: Broker
    epoch: int
    topic_id: UUID | None


class LeaderHint(NamedTuple):
    """The new leader in a Fetch or Produce response of a broker that no longer leads the partition (KIP-951).

    `endpoints`: brokers in the response, by id. The leader may be missing there if its endpoint is known already.
    """

    tp: TopicPartition
    leader_id: int
    leader_epoch: int
    endpoints: Mapping[int, Broker]


def leader_hint(tp: TopicPartition, current_leader: Any, node_endpoints: Iterable[Any]) -> LeaderHint | None:
    """The hint of a partition's `current_leader` and the response's `node_endpoints`; None: there is no hint."""
    if current_leader.leader_id < 0 or current_leader.leader_epoch < 0:
        return None
    endpoints = {node.node_id: Broker(node.node_id, node.host, node.port, node.rack) for node in node_endpoints}
    return LeaderHint(tp, current_leader.leader_id, current_leader.leader_epoch, endpoints)


NOTHING = ClusterMetadata(None, -1, {}, {})


@dataclass(slots=True)
class MetadataCache:
    """The newest known state, and the time of each part's last update (a part without a time is out of date)."""

    max_age_seconds: float
    current: ClusterMetadata = NOTHING
    _brokers_at: float | None = None
    _all_topics_at: float | None = None
    _topics_at: dict[str, float] = field(default_factory=dict)

    def find(self, topics: Collection[str] | None) -> ClusterMetadata | None:
        """The metadata of `topics` (None: all topics) if all are known, without error and not too old; else None."""
        if topics is None:
            return self.current if self._fresh(self._all_topics_at) else None
        if not self._fresh(self._brokers_at):
            return None
        for name in topics:
            if not self._fresh(self._topics_at.get(name)) or self.current.topics[name].error is not None:
                return None
        return self._view(topics)

    def has_error(self, topics: Collection[str] | None) -> bool:
        """Whether one of these topics had an error when it was last described."""
        known = self.current.topics
        return any(name in known and known[name].error is not None for name in topics or ())

    def merge(self, answer: ClusterMetadata, topics: Collection[str] | None) -> ClusterMetadata:
        """Merge the response to a request for these topics (None: all); return their newest metadata."""
        now = time.monotonic()
        merged = {name: self._newest(topic) for name, topic in answer.topics.items()}
        if topics is None:
            self._all_topics_at = now
            self._topics_at = {}
        else:
            merged = self.current.topics | merged
        self.current = replace(answer, topics=merged)
        self._brokers_at = now
        self._topics_at.update(dict.fromkeys(answer.topics, now))
        return self.current if topics is None else self._view(topics)

    def take_leader(self, hint: LeaderHint) -> bool:
        """Update a partition's leader if the hint's epoch is newer and the leader's endpoint is known.

        Returns whether it was updated.
        """
        topic = self.current.topics.get(hint.tp.topic)
        partition = None if topic is None else topic.partitions.get(hint.tp.partition)
        broker = hint.endpoints.get(hint.leader_id) or self.current.brokers.get(hint.leader_id)
        if topic is None or partition is None or broker is None or hint.leader_epoch <= partition.leader_epoch:
            return False
        moved = replace(partition, leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
        topic = replace(topic, partitions=topic.partitions | {hint.tp.partition: moved})
        self.current = replace(
            self.current,
            brokers=self.current.brokers | {hint.leader_id: broker},
            topics=self.current.topics | {topic.name: topic},
        )
        return True

    def invalidate(self) -> None:
        """Request everything again before it is used. Leader epochs are kept, so that an older response is
        recognized.
        """
        self._brokers_at = self._all_topics_at = None
        self._topics_at = {}

    def forget(self) -> None:
        """Delete all metadata, including leader epochs."""
        self.invalidate()
        self.current = NOTHING

    def _fresh(self, learnt_at: float | None) -> bool:
        return learnt_at is not None and time.monotonic() - learnt_at < self.max_age_seconds

    def _view(self, topics: Collection[str]) -> ClusterMetadata:
        return replace(self.current, topics={name: self.current.topics[name] for name in topics})

    def _newest(self, topic: TopicMetadata) -> TopicMetadata:
        known = self.current.topics.get(topic.name)
        if known is None or topic.error is not None or topic.topic_id is None or known.topic_id != topic.topic_id:
            return topic
        older = {
            number: known.partitions[number]
            for number, partition in topic.partitions.items()
            if number in known.partitions and partition.leader_epoch < known.partitions[number].leader_epoch
        }
        return replace(topic, partitions=topic.partitions | older) if older else topic


def metadata_request(version: int, topics: Collection[str] | None) -> MetadataRequest:
    """A request that never creates a topic. `topics` None: all topics."""
    if asking_creates_topics(version):
        return MetadataRequest(topics=all_topics(version))  # `read_metadata` filters the answer
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def check_metadata(response: MetadataResponse, broker: str | None = None) -> None:
    """Raises the error of the whole response, if it has one (REBOOTSTRAP_REQUIRED, KIP-1102)."""
    if response.error_code:
        raise error_from_code(response.error_code, "Metadata", broker=broker)


def read_metadata(response: MetadataResponse, topics: Collection[str] | None) -> ClusterMetadata:
    """The response as values, without topics that are not in `topics`.

    A topic of `topics` that the response lacks has the error UNKNOWN_TOPIC_OR_PARTITION. Raises ProtocolFault for a
    topic name that Kafka does not allow, because names are used in paths and printed.
    """
    found: dict[str, TopicMetadata] = {}
    for topic in response.topics:
        if topic.name is None or (topics is not None and topic.name not in topics):
            continue
        if not is_topic_name(topic.name) and not (topic.error_code and topics is not None):
            raise ProtocolFault(f"the metadata names a topic that Kafka does not allow: {topic.name[:300]!a}")
        found[topic.name] = TopicMetadata(
            name=topic.name,
            topic_id=None if topic.topic_id == NO_ID else topic.topic_id,
            is_internal=topic.is_internal or topic.name in _INTERNAL,
            partitions={
                partition.partition_index: PartitionMetadata(
                    partition=partition.partition_index,
                    leader_id=partition.leader_id,
                    leader_epoch=partition.leader_epoch,
                    replicas=tuple(partition.replica_nodes),
                    isr=tuple(partition.isr_nodes),
                )
                for partition in topic.partitions
            },
            error=ErrorCode.of(topic.error_code) if topic.error_code else None,
        )
    for name in topics or ():
        if name not in found:
            found[name] = TopicMetadata(name, None, False, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers={b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers},
        topics=found,
    )


def leader_in(metadata: ClusterMetadata, tp: TopicPartition) -> Leader:
    """A partition's leader in this metadata. Raises UnknownTopic, LeaderNotAvailable, AuthorizationFailed …"""
    topic = metadata.topics[tp.topic]
    if topic.error is not None:
        raise error_from_code(topic.error, "Metadata", topic=tp.topic, partition=tp.partition)
    partition = topic.partitions.get(tp.partition)
    if partition is None:
        raise UnknownTopic(
            f"the topic has {len(topic.partitions)} partitions, and not this one",
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            retriable=True,
            topic=tp.topic,
            partition=tp.partition,
        )
    broker = metadata.brokers.get(partition.leader_id)
    if broker is None:
        none = partition.leader_id == NO_LEADER
        why = (
            "has no leader"
            if none
            else f"is led by broker {partition.leader_id}, which is not in the cluster's metadata"
        )
        raise LeaderNotAvailable(f"the partition {why}", topic=tp.topic, partition=tp.partition)
    return Leader(broker, partition.leader_epoch, topic.topic_id)
