"""The topics as they are now. Always requested: what the cluster object remembers is neither used nor changed.

    describe_topics             Metadata (3)                    any broker; by name or, from version 12, by id
    describe_topic_partitions   DescribeTopicPartitions (75)    any broker; page by page, with replicas eligible to lead

Neither ever creates a topic. Sources: KIP-430 (authorized operations), KIP-516, KIP-966.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, check_metadata
from kseg.client.cluster.results import Results, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.enums import AclOperation, authorized_operations
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest, MetadataResponse
from kseg.client.protocol.versions import all_topics, asking_creates_topics
from kseg.client.retry import Deadline

_FIRST_WITH_OPERATIONS: Final = 8
_FIRST_WITH_IDS: Final = 12
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition. `leader` -1: none now. `eligible` (KIP-966): may lead although not in sync; None: unknown."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    eligible: tuple[int, ...] | None = None
    last_known_eligible: tuple[int, ...] | None = None
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. `operations`: what the asker may do with it, None if not asked for or the broker is too old."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: dict[int, PartitionDescription] = field(default_factory=dict)
    operations: frozenset[AclOperation] | None = None


def describe_topics(
    cluster: Cluster, topics: Collection[str | UUID] | None = None, *, operations: bool = False
) -> Results[str | UUID, TopicDescription]:
    """Describe topics by name or id, or list all topics (None: internal ones too, by name).

    operations: also the operations on them that the client is authorized for (KIP-430).

    A topic that is not there has the error UnknownTopic, at once.
    """

    def build(waiting: Collection[str | UUID] | None, version: int) -> MetadataRequest:
        request = MetadataRequest(topics=all_topics(version))
        if version < _FIRST_WITH_IDS and any(isinstance(topic, UUID) for topic in waiting or ()):
            raise UnsupportedVersion("the broker is too old to describe topics by id")
        if waiting is not None and not asking_creates_topics(version):
            request.topics = [_asked(topic) for topic in waiting]
        if not asking_creates_topics(version):
            request.allow_auto_topic_creation = False
        if version >= _FIRST_WITH_OPERATIONS:
            request.include_topic_authorized_operations = operations
        return request

    def read(response: MetadataResponse, waiting: Collection[str | UUID] | None) -> dict[str | UUID, Any]:
        found: dict[str | UUID, Any] = {}
        for topic in response.topics:
            part = topic.topic_id if waiting is not None and topic.topic_id in waiting else topic.name or ""
            found[part] = outcome(
                topic.error_code, "Metadata", _from_metadata(topic), topic=topic.name or str(topic.topic_id)
            )
        for name in waiting or ():
            if name not in found:  # asked for all topics, as the oldest versions are: it is not among them
                found[name] = error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Metadata", topic=str(name))
        return found

    if topics is None:
        response = cluster.send_built(MetadataRequest, lambda version: build(None, version), check=check_metadata)
        return Results(read(response, None))

    def ask(waiting: list[str | UUID], deadline: Deadline) -> dict[str | UUID, Any]:
        response = cluster.send_now(MetadataRequest, lambda version: build(waiting, version), deadline)
        check_metadata(response)
        return read(response, waiting)

    return retry_failed_parts(cluster, topics, ask, final=_UNKNOWN)


def describe_topic_partitions(
    cluster: Cluster, topics: Collection[str] | None = None, *, page: int = 2000
) -> Results[str, TopicDescription]:
    """The topics (None: all), asked for in pages of at most so many partitions, so that no answer grows beyond bounds.

    From Kafka 3.8 on. Topics made or deleted between two pages may be missing or incomplete.
    """
    if topics is not None and not topics:
        return Results()  # to the broker an empty list is all of them
    results: Results[str, TopicDescription] = Results()
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics or ())],
            response_partition_limit=page,
            cursor=cursor,
        )
        response = cluster.send(request)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                results[name] = error_from_code(topic.error_code, "DescribeTopicPartitions", topic=name)
                continue
            known = results.get(name)
            if not isinstance(known, TopicDescription):
                results[name] = known = _page(topic)
            known.partitions.update({entry.partition_index: _partition(name, entry) for entry in topic.partitions})
        if response.next_cursor is None:
            return results
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )


def _asked(topic: str | UUID) -> MetadataRequest.MetadataRequestTopic:
    if isinstance(topic, UUID):
        return MetadataRequest.MetadataRequestTopic(topic_id=topic, name=None)
    return MetadataRequest.MetadataRequestTopic(name=topic)


def _from_metadata(topic: Any) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=None if topic.topic_id == NO_ID else topic.topic_id,
        is_internal=topic.is_internal,
        partitions={entry.partition_index: _partition(topic.name, entry) for entry in topic.partitions},
        operations=authorized_operations(topic.topic_authorized_operations),
    )


def _page(topic: Any) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        operations=authorized_operations(topic.topic_authorized_operations),
    )


def _partition(topic: str, entry: Any) -> PartitionDescription:
    eligible = getattr(entry, "eligible_leader_replicas", None)
    last_known = getattr(entry, "last_known_elr", None)
    return PartitionDescription(
        partition=entry.partition_index,
        leader=entry.leader_id,
        leader_epoch=entry.leader_epoch,
        replicas=tuple(entry.replica_nodes),
        in_sync=tuple(entry.isr_nodes),
        offline=tuple(entry.offline_replicas),
        eligible=None if eligible is None else tuple(eligible),
        last_known_eligible=None if last_known is None else tuple(last_known),
        error=error_from_code(entry.error_code, "Metadata", topic=topic, partition=entry.partition_index)
        if entry.error_code
        else None,
    )
