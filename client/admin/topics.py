"""Topics: made, given more partitions, deleted.

create_topics, create_topic       CreateTopics (19)        to the controller (KRaft brokers forward)
create_partitions                 CreatePartitions (37)    to the controller
delete_topics, delete_topic       DeleteTopics (20)        to the controller; by name or, from version 6, by id
delete_records                    DeleteRecords (21)       to each partition's leader
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kseg.client.admin.configs import ConfigEntry, config_entry
from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID, TopicMetadata, leader_in
from kseg.client.cluster.results import Results, ask_each_leader, fixed, outcome, retry_failed_parts
from kseg.client.errors import BrokerError, Code, KafkaError, LeaderNotAvailable, TopicExists, UnsupportedVersion
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline

HIGH_WATERMARK: Final = -1
_DEFAULT: Final = -1
_FIRST_WITH_VALIDATION: Final = 1
_FIRST_WITH_DEFAULTS: Final = 4
_FIRST_WITH_TOPIC_STATES: Final = 6
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 is the broker's default.

    `assignments` places the replicas by hand: the brokers of each partition from 0 on, the preferred leader first. The
    two counts stay -1 then.
    """

    name: str
    partitions: int = _DEFAULT
    replication_factor: int = _DEFAULT
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The topic that the controller made. From brokers before 2.4 (2.8 for the id) nothing of it is returned: None, -1,
    {}.

    `config_error` is set where the principal may not see the configuration.
    """

    topic_id: UUID | None
    partitions: int
    replication_factor: int
    config: dict[str, ConfigEntry]
    config_error: Code | None = None


def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
) -> Results[str, CreatedTopic]:
    """Create topics and wait until every partition has a leader; `validate_only` creates none.

    `timeout_ms` is for how long the broker waits until the topics are complete on the controller (None:
    `request.timeout.ms`). At 0 or less it answers at once: REQUEST_TIMED_OUT where they are not complete yet, and they
    will be under ZooKeeper, but not under KRaft.
    After a lost answer, or REQUEST_TIMED_OUT, a topic that is there is taken for the one that was to be made.
    """
    wanted = {topic.name: topic for topic in topics}
    lost = False

    def ask(names: list[str], deadline: Deadline) -> dict[str, CreatedTopic | KafkaError]:
        def build(version: int) -> CreateTopicsRequest:
            if validate_only and version < _FIRST_WITH_VALIDATION:
                raise UnsupportedVersion("the broker is too old to validate without creating")
            return CreateTopicsRequest(
                timeout_ms=cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms,
                topics=[_creatable(wanted[name], version) for name in names],
                validate_only=validate_only,
            )

        repeatable = True if validate_only else None
        response = cluster.send_now(CreateTopicsRequest, build, deadline, controller=True, repeatable=repeatable)
        found = {topic.name: _created(topic, validate_only) for topic in response.topics}
        if lost:
            ours = [name for name, answer in found.items() if isinstance(answer, TopicExists)]
            found |= _as_created(cluster, ours, deadline)
        return found

    def verify(names: list[str], deadline: Deadline) -> dict[str, CreatedTopic]:
        nonlocal lost
        lost = True
        return _as_created(cluster, names, deadline)

    at_once = timeout_ms is not None and timeout_ms <= 0
    results: Results[str, CreatedTopic] = retry_failed_parts(
        cluster,
        wanted,
        ask,
        final=(ErrorCode.REQUEST_TIMED_OUT,) if at_once else (),
        verify=verify if _knows_topics(cluster) and not validate_only else None,
    )
    if not validate_only:
        made = results.done()
        _wait_for_leaders(
            cluster,
            {name: topic.partitions for name, topic in made.items()},
            {name: topic.topic_id for name, topic in made.items()},
        )
    return results


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = _DEFAULT,
    replication_factor: int = _DEFAULT,
    config: Mapping[str, str] | None = None,
) -> UUID | None:
    """Create one topic and return its id (None: unknown). Raises TopicExists and others, naming the topic."""
    new = NewTopic(name, partitions, replication_factor, config or {})
    return create_topics(cluster, [new]).or_raise()[name].topic_id


def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
) -> Results[str, None]:
    """Raise topics to so many partitions (a total, never fewer than now), and wait for the new ones' leaders.

    `assignments` places the new partitions of a topic, brokers of each in order; a topic that is not in it is placed by
    the controller.
    """

    def ask(names: list[str], deadline: Deadline) -> dict[str, KafkaError | None]:
        request = CreatePartitionsRequest(
            timeout_ms=cluster.config.request_timeout_ms,
            validate_only=validate_only,
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(
                    name=name, count=counts[name], assignments=_assigned(assignments, name)
                )
                for name in names
            ],
        )
        repeatable = True if validate_only else None
        response = cluster.send_now(
            CreatePartitionsRequest, fixed(request), deadline, controller=True, repeatable=repeatable
        )
        return {
            topic.name: outcome(
                topic.error_code, "CreatePartitions", None, detail=topic.error_message, topic=topic.name
            )
            for topic in response.results
        }

    def verify(names: list[str], deadline: Deadline) -> dict[str, None]:
        there = _topics_now(cluster, names, deadline)
        return {name: None for name in names if len(there[name].partitions) == counts[name]}

    results: Results[str, None] = retry_failed_parts(
        cluster, counts, ask, verify=verify if _knows_topics(cluster) and not validate_only else None
    )
    if not validate_only:
        _wait_for_leaders(cluster, {name: counts[name] for name in results.done()})
    return results


def delete_topics(cluster: Cluster, topics: Collection[str | UUID]) -> Results[str | UUID, None]:
    """Delete topics by name or by id, and wait until they are not listed any more.

    An id deletes that very topic and never one that was recreated under its name; brokers before 2.8 know none.
    """
    names = [topic for topic in topics if isinstance(topic, str)]
    before = cluster.metadata(names, refresh=True).topics if names and _knows_topics(cluster) else {}
    named: dict[str | UUID, str] = {}  # as the answers name what was asked for by id
    lost = False

    def ask(waiting: list[str | UUID], deadline: Deadline) -> dict[str | UUID, KafkaError | None]:
        def build(version: int) -> DeleteTopicsRequest:
            request = DeleteTopicsRequest(timeout_ms=cluster.config.request_timeout_ms)
            if version >= _FIRST_WITH_TOPIC_STATES:
                request.topics = [
                    DeleteTopicsRequest.DeleteTopicState(name=topic)
                    if isinstance(topic, str)
                    else DeleteTopicsRequest.DeleteTopicState(topic_id=topic)
                    for topic in waiting
                ]
                return request
            if any(isinstance(topic, UUID) for topic in waiting):
                raise UnsupportedVersion("the broker is too old to delete topics by id")
            request.topic_names = [str(topic) for topic in waiting]
            return request

        response = cluster.send_now(DeleteTopicsRequest, build, deadline, controller=True)
        found: dict[str | UUID, KafkaError | None] = {}
        for topic in response.responses:
            by_id = topic.topic_id in waiting
            name = str(topic.topic_id) if topic.name is None else topic.name
            if by_id and topic.name is not None:
                named[topic.topic_id] = topic.name
            # An answer names a topic both ways, whichever way it was asked for (and has no name for an unknown id).
            done_before = lost and topic.error_code in _GONE
            found[topic.topic_id if by_id or topic.name is None else topic.name] = outcome(
                0 if done_before else topic.error_code,
                "DeleteTopics",
                None,
                detail=topic.error_message,
                topic=name,
            )
        return found

    def verify(waiting: list[str | UUID], deadline: Deadline) -> dict[str | UUID, None]:
        nonlocal lost
        lost = True
        there = _topics_now(cluster, names, deadline)
        return {
            name: None
            for name in names
            if name in waiting and (there[name].error is not None or there[name].topic_id != before[name].topic_id)
        }

    results: Results[str | UUID, None] = retry_failed_parts(
        cluster, topics, ask, verify=verify if _knows_topics(cluster) else None
    )
    done = results.done()
    gone = {name: topic.topic_id for name, topic in before.items() if name in done and topic.error is None}
    if _knows_topics(cluster):
        gone |= {named[topic]: topic for topic in done if isinstance(topic, UUID) and topic in named}
    _wait_until_gone(cluster, gone)
    return results


def delete_topic(cluster: Cluster, name: str | UUID) -> None:
    """Delete one topic; raises UnknownTopic and others, naming it."""
    delete_topics(cluster, [name]).or_raise()


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
    """Drop each partition's records before an offset (HIGH_WATERMARK, -1: all that are replicated).

    Gives each partition's log start on all its live replicas. Errors: OFFSET_OUT_OF_RANGE for an offset above the high
    watermark, POLICY_VIOLATION for a topic that is compacted and never deletes. With HIGH_WATERMARK, REQUEST_TIMED_OUT
    is not retried: the leader has deleted the records, and replicas have not in time.
    """

    def build(_: int, partitions: Collection[TopicPartition]) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            timeout_ms=cluster.config.request_timeout_ms,
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])
                        for tp in members
                    ],
                )
                for topic, members in by_topic(partitions).items()
            ],
        )

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, entry.partition_index): outcome(
                entry.error_code,
                "DeleteRecords",
                entry.low_watermark,
                topic=topic.name,
                partition=entry.partition_index,
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    if HIGH_WATERMARK not in before.values():  # an offset is the same the second time
        return ask_each_leader(cluster, before, DeleteRecordsRequest, build, read, repeatable=True)
    # The high watermark is not: after it was raised, records that nobody meant would be deleted.
    final = (ErrorCode.REQUEST_TIMED_OUT,)
    return ask_each_leader(cluster, before, DeleteRecordsRequest, build, read, final=final)


def _creatable(topic: NewTopic, version: int) -> CreateTopicsRequest.CreatableTopic:
    counted = topic.assignments is None
    if counted and _DEFAULT in (topic.partitions, topic.replication_factor) and version < _FIRST_WITH_DEFAULTS:
        raise UnsupportedVersion(
            "the broker is too old to choose a topic's counts: give partitions and replication_factor", topic=topic.name
        )
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(topic.assignments or ())
        ],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=k, value=v) for k, v in topic.config.items()],
    )


def _created(topic: CreateTopicsResponse.CreatableTopicResult, validated: bool) -> CreatedTopic | KafkaError:
    # A topic that was only validated gets an id too: one that no topic will ever have.
    value = CreatedTopic(
        topic_id=None if validated or topic.topic_id == NO_ID else topic.topic_id,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        config={entry.name: config_entry(entry) for entry in topic.configs or ()},
        config_error=ErrorCode.of(topic.topic_config_error_code) if topic.topic_config_error_code else None,
    )
    return outcome(topic.error_code, "CreateTopics", value, detail=topic.error_message, topic=topic.name)


def _as_created(cluster: Cluster, names: Collection[str], deadline: Deadline) -> dict[str, CreatedTopic]:
    """Those of the topics that are there, as if the answer had come that was lost."""
    return {
        name: CreatedTopic(topic.topic_id, len(topic.partitions), _DEFAULT, {})
        for name, topic in (_topics_now(cluster, names, deadline) if names else {}).items()
        if topic.error is None
    }


def _knows_topics(cluster: Cluster) -> bool:
    """Whether there are brokers to ask: KRaft controllers create and delete topics and return no metadata of them."""
    return not cluster.config.bootstrap_controllers


def _topics_now(cluster: Cluster, names: Collection[str], deadline: Deadline) -> dict[str, TopicMetadata]:
    """The topics as they are, for one try."""
    cluster.forget_metadata()
    return cluster.metadata_now(names, deadline).topics


def _assigned(
    assignments: Mapping[str, Sequence[Sequence[int]]] | None, topic: str
) -> list[CreatePartitionsRequest.CreatePartitionsAssignment] | None:
    """Null leaves the choice to the controller; an empty list would be a choice of none."""
    if assignments is None or topic not in assignments:
        return None
    return [
        CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments[topic]
    ]


def _wait_until_gone(cluster: Cluster, topics: Mapping[str, UUID | None]) -> None:
    """Brokers learn of the controller's deletion a moment later. A topic of another id is a new one."""

    def attempt(deadline: Deadline) -> None:
        cluster.forget_metadata()
        for name, topic in cluster.metadata_now(topics, deadline).topics.items():
            if topic.error is None and topic.topic_id == topics[name]:
                raise BrokerError("the topic is deleted and still listed", retriable=True, topic=name)

    if topics:
        cluster.retry(attempt)


def _wait_for_leaders(
    cluster: Cluster, counts: Mapping[str, int], ids: Mapping[str, UUID | None] | None = None
) -> None:
    """Brokers learn of the controller's new partitions a moment later, and leaders take over after that.

    A count of -1: as many as the cluster reports, but one at least. ids: those of new topics, as far as known: a
    broker may still list the one of the same name that was deleted before.
    """
    wanted = ids or {}

    def attempt(deadline: Deadline) -> None:
        metadata = cluster.metadata_now(counts, deadline)
        for name, count in counts.items():
            topic = metadata.topics[name]
            if (
                topic.error is None
                and None not in (topic.topic_id, wanted.get(name))
                and topic.topic_id != wanted[name]
            ):
                raise LeaderNotAvailable("the topic that was there before it is still listed", topic=name)
            if topic.error is None and not topic.partitions:
                raise LeaderNotAvailable("the topic has no partitions yet", topic=name)
            for partition in range(count) if count > 0 else (topic.partitions or (0,)):
                leader_in(metadata, TopicPartition(name, partition))

    cluster.forget_metadata()
    if counts and _knows_topics(cluster):
        cluster.retry(attempt)
