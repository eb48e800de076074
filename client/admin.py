"""Topics, their configuration, and where they lie on disk.

create_topics, delete_topics   CreateTopics (19), DeleteTopics (20)   to the controller (KRaft brokers forward)
describe_topic_configs         DescribeConfigs (32)                   to any broker
describe_log_dirs              DescribeLogDirs (35)                   to every broker: each tells its own disks
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from client.cluster import Cluster
from client.errors import BrokerError, Code, LeaderNotAvailable, error_from_code
from client.metadata import NO_ID, TopicMetadata, leader_in
from client.offsets import by_topic
from client.partition import TopicPartition
from client.protocol import ErrorCode
from client.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from client.retry import Deadline

_TOPIC: Final = 2  # as resource type
_FIRST_WITH_TOPIC_STATES: Final = 6

#: `ConfigEntry.source` by the protocol's numbers (KIP-226).
CONFIG_SOURCES: Final = {
    1: "topic",
    2: "broker-dynamic",
    3: "cluster-dynamic",
    4: "broker-static",
    5: "default",
    6: "broker-logger-dynamic",
    7: "client-metrics",
    8: "group",
}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 is the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A topic's setting and where it comes from. `value` is None for one that is secret."""

    value: str | None
    source: str

    @property
    def is_set(self) -> bool:
        """Whether it was set for this very topic."""
        return self.source == "topic"


@dataclass(frozen=True, slots=True)
class LogDirPartition:
    """One replica's log: bytes on disk, how far it lags behind, whether it is moving here from another folder."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log folder of one broker. `total_bytes` and `usable_bytes` are -1 on brokers before 3.3."""

    broker: int
    path: str
    error: Code | None
    total_bytes: int
    usable_bytes: int
    partitions: dict[TopicPartition, LogDirPartition]


def create_topics(cluster: Cluster, topics: Sequence[NewTopic]) -> dict[str, UUID | None]:
    """Create topics and wait until every partition has a leader. Gives the topics' ids (None: not told).

    Raises TopicExists and others, naming the topic. After a lost answer a topic that is there is taken for the one that
    was to be made.
    """
    lost = False
    request = CreateTopicsRequest(
        timeout_ms=cluster.config.request_timeout_ms,
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[CreateTopicsRequest.CreatableTopicConfig(name=k, value=v) for k, v in topic.config.items()],
            )
            for topic in topics
        ],
    )

    def check(response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            if lost and topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                topic.error_code = 0
            if topic.error_code:
                raise error_from_code(topic.error_code, "CreateTopics", detail=topic.error_message, topic=topic.name)

    def find_out(deadline: Deadline) -> CreateTopicsResponse | None:
        nonlocal lost
        lost = True
        cluster.forget_metadata()
        found = cluster.metadata_now([topic.name for topic in topics], deadline).topics
        if any(topic.error is not None for topic in found.values()):
            return None
        created = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(
            topics=[created(name=name, topic_id=t.topic_id or NO_ID) for name, t in found.items()]
        )

    response = cluster.send(request, controller=True, check=check, find_out=find_out)
    names = [topic.name for topic in topics]
    _wait_for_leaders(cluster, names)
    ids = {topic.name: topic.topic_id for topic in response.topics}
    if lost:  # an answer that the topic is there already does not tell its id
        ids = {name: topic.topic_id or NO_ID for name, topic in cluster.metadata(names).topics.items()}
    return {name: None if topic_id == NO_ID else topic_id for name, topic_id in ids.items()}


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    config: Mapping[str, str] | None = None,
) -> UUID | None:
    """Create one topic; see `create_topics`."""
    return create_topics(cluster, [NewTopic(name, partitions, replication_factor, config or {})])[name]


def delete_topics(cluster: Cluster, names: Collection[str]) -> None:
    """Delete topics, and wait until they are not listed any more. Raises UnknownTopic and others, naming the topic."""

    def build(version: int) -> DeleteTopicsRequest:
        request = DeleteTopicsRequest(timeout_ms=cluster.config.request_timeout_ms)
        if version >= _FIRST_WITH_TOPIC_STATES:
            request.topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        return request

    def check(response: DeleteTopicsResponse) -> None:
        for topic in response.responses:
            if topic.error_code and not (lost and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise error_from_code(topic.error_code, "DeleteTopics", detail=topic.error_message, topic=topic.name)

    before = cluster.metadata(names, refresh=True).topics
    lost = False

    def find_out(deadline: Deadline) -> DeleteTopicsResponse | None:
        nonlocal lost
        lost = True
        cluster.forget_metadata()
        found = cluster.metadata_now(names, deadline).topics
        there = [t for name, t in found.items() if t.error is None and t.topic_id == before[name].topic_id]
        return None if there else DeleteTopicsResponse()

    cluster.send_built(DeleteTopicsRequest, build, controller=True, check=check, find_out=find_out)
    _wait_until_gone(cluster, before)


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete one topic; see `delete_topics`."""
    delete_topics(cluster, [name])


def describe_topic_configs(cluster: Cluster, topics: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Every setting of each topic, defaults included."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic, configuration_keys=None
            )
            for topic in topics
        ]
    )

    def check(response: DescribeConfigsResponse) -> None:
        for result in response.results:
            if result.error_code:
                raise error_from_code(
                    result.error_code, "DescribeConfigs", detail=result.error_message, topic=result.resource_name
                )

    response = cluster.send(request, check=check)
    return {
        result.resource_name: {
            entry.name: ConfigEntry(entry.value, CONFIG_SOURCES.get(entry.config_source, "unknown"))
            for entry in result.configs
        }
        for result in response.results
    }


def describe_log_dirs(cluster: Cluster, partitions: Collection[TopicPartition] | None = None) -> tuple[LogDir, ...]:
    """The log folders of all brokers with these partitions (None: all). Needs the right to describe the cluster.

    Raises SomeBrokersFailed, with the answers of the others.

    A broker tells nothing at all where that right is missing (brokers before 3.0 answer with an empty list).
    """
    request = DescribeLogDirsRequest(topics=None)
    if partitions is not None:
        request.topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[tp.partition for tp in members])
            for topic, members in by_topic(partitions).items()
        ]

    def check(response: DescribeLogDirsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeLogDirs")

    answers = cluster.send_to_all(request, check=check).whole("DescribeLogDirs")
    return tuple(_log_dir(node_id, result) for node_id in sorted(answers) for result in answers[node_id].results)


def finalized_features(cluster: Cluster) -> dict[str, int]:
    """The cluster's finalized features and their levels, such as `transaction.version` and `metadata.version`."""
    return cluster.finalized_features()


def _log_dir(node_id: int, result: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDir:
    return LogDir(
        broker=node_id,
        path=result.log_dir,
        error=ErrorCode.of(result.error_code) if result.error_code else None,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        partitions={
            TopicPartition(topic.name, entry.partition_index): LogDirPartition(
                entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in result.topics
            for entry in topic.partitions
        },
    )


def _wait_until_gone(cluster: Cluster, topics: Mapping[str, TopicMetadata]) -> None:
    """The controller has deleted them, brokers hear of it a moment later. One of another id is a new one."""

    def attempt(deadline: Deadline) -> None:
        cluster.forget_metadata()
        for name, topic in cluster.metadata_now(topics, deadline).topics.items():
            if topic.error is None and topic.topic_id == topics[name].topic_id:
                raise BrokerError("the topic is deleted and still listed", retriable=True, topic=name)

    cluster.retry(attempt)


def _wait_for_leaders(cluster: Cluster, names: Collection[str]) -> None:
    """The controller has made the topics; brokers hear of them a moment later, and leaders take over after that."""

    def attempt(deadline: Deadline) -> None:
        metadata = cluster.metadata_now(names, deadline)
        for name in names:
            topic = metadata.topics[name]
            if topic.error is None and not topic.partitions:
                raise LeaderNotAvailable("the topic has no partitions yet", topic=name)
            for partition in topic.partitions or (0,):
                leader_in(metadata, TopicPartition(name, partition))

    cluster.forget_metadata()
    cluster.retry(attempt)
