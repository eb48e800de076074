"""Reads and changes which brokers hold and lead partitions.

    alter_reassignments   AlterPartitionReassignments (45)   to the controller: moves replicas, or cancels a move
    list_reassignments    ListPartitionReassignments (46)    to the controller; partitions None: all that move
    elect_leaders         ElectLeaders (43)                  to the controller; partitions None: all

Version 0 of ElectLeaders was called ElectPreferredLeaders and knows that one kind of election. Sources: KIP-183,
KIP-455, KIP-460, KIP-860.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline

_ELECTIONS: Final[dict[str, int]] = {"preferred": 0, "unclean": 1}
_FIRST_WITH_KINDS: Final = 1
_FIRST_WITH_FACTOR: Final = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move under way: all replicas now, those that are on their way in, and those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def alter_reassignments(
    cluster: Cluster,
    replicas: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> Results[TopicPartition, None]:
    """Move each partition to these brokers, the preferred leader first; None cancels a move under way.

    The answer comes when the moves begin: `list_reassignments` shows them. A cancel where nothing moves is an error of
    its own, NO_REASSIGNMENT_IN_PROGRESS.
    """

    def ask(waiting: list[TopicPartition], deadline: Deadline) -> dict[TopicPartition, KafkaError | None]:
        def build(version: int) -> AlterPartitionReassignmentsRequest:
            request = AlterPartitionReassignmentsRequest(timeout_ms=cluster.config.request_timeout_ms)
            if version >= _FIRST_WITH_FACTOR:
                request.allow_replication_factor_change = allow_replication_factor_change
            elif not allow_replication_factor_change:
                raise UnsupportedVersion("the broker is too old to keep the replication factor")
            for topic, members in by_topic(waiting).items():
                entry = AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic)
                for tp in members:
                    to = replicas[tp]
                    entry.partitions.append(
                        AlterPartitionReassignmentsRequest.ReassignablePartition(
                            partition_index=tp.partition, replicas=None if to is None else list(to)
                        )
                    )
                request.topics.append(entry)
            return request

        response = cluster.send_now(AlterPartitionReassignmentsRequest, build, deadline, controller=True)
        if response.error_code:
            raise error_from_code(response.error_code, "AlterPartitionReassignments", detail=response.error_message)
        return {
            TopicPartition(topic.name, entry.partition_index): outcome(
                entry.error_code,
                "AlterPartitionReassignments",
                None,
                detail=entry.error_message,
                topic=topic.name,
                partition=entry.partition_index,
            )
            for topic in response.responses
            for entry in topic.partitions
        }

    return retry_failed_parts(cluster, replicas, ask)


def list_reassignments(
    cluster: Cluster, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The moves under way of these partitions (None: of all); those that do not move are not there."""
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.config.request_timeout_ms, topics=None)
    if partitions is not None:
        request.topics = [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=topic, partition_indexes=[tp.partition for tp in members]
            )
            for topic, members in by_topic(partitions).items()
        ]

    def check(response: ListPartitionReassignmentsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "ListPartitionReassignments", detail=response.error_message)

    response = cluster.send(request, controller=True, check=check)
    return {
        TopicPartition(topic.name, entry.partition_index): Reassignment(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def elect_leaders(
    cluster: Cluster,
    kind: Literal["preferred", "unclean"] = "preferred",
    partitions: Collection[TopicPartition] | None = None,
) -> Results[TopicPartition, bool]:
    """Elect the preferred (first) replica as leader or, uncleanly, one that has lost records, where none else lives.

    Each partition's outcome: whether there was an election; not, where the leader is already the one to elect. With
    partitions None (all) those that needed none are left out.
    """

    def build_for(members: Collection[TopicPartition] | None, version: int) -> ElectLeadersRequest:
        request = ElectLeadersRequest(timeout_ms=cluster.config.request_timeout_ms, topic_partitions=None)
        if version >= _FIRST_WITH_KINDS:
            request.election_type = _ELECTIONS[kind]
        elif kind != "preferred":
            raise UnsupportedVersion("the broker is too old: it elects only preferred leaders")
        if members is not None:
            request.topic_partitions = [
                ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[tp.partition for tp in of_topic])
                for topic, of_topic in by_topic(members).items()
            ]
        return request

    def read(response: ElectLeadersResponse) -> dict[TopicPartition, Any]:
        if response.error_code:
            raise error_from_code(response.error_code, "ElectLeaders")
        found: dict[TopicPartition, Any] = {}
        for topic in response.replica_election_results:
            for entry in topic.partition_result:
                not_needed = entry.error_code == ErrorCode.ELECTION_NOT_NEEDED
                found[TopicPartition(topic.topic, entry.partition_id)] = outcome(
                    0 if not_needed else entry.error_code,
                    "ElectLeaders",
                    not not_needed,
                    detail=entry.error_message,
                    topic=topic.topic,
                    partition=entry.partition_id,
                )
        return found

    if partitions is None:

        def attempt(deadline: Deadline) -> dict[TopicPartition, Any]:
            return read(
                cluster.send_now(
                    ElectLeadersRequest, lambda version: build_for(None, version), deadline, controller=True
                )
            )

        return Results({tp: value for tp, value in cluster.retry(attempt).items() if value is not False})

    def ask(waiting: list[TopicPartition], deadline: Deadline) -> dict[TopicPartition, Any]:
        return read(
            cluster.send_now(
                ElectLeadersRequest, lambda version: build_for(waiting, version), deadline, controller=True
            )
        )

    return retry_failed_parts(cluster, partitions, ask)
