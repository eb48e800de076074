"""Offsets of share groups (KIP-932): where each partition's window of records in delivery begins.

    describe_share_offsets   DescribeShareGroupOffsets (90)   the group's coordinator; partitions None: all
    alter_share_offsets      AlterShareGroupOffsets (91)      the group's coordinator; the group has no members
    delete_share_offsets     DeleteShareGroupOffsets (92)     the group's coordinator; whole topics

Who is in such a group: `client.groups.descriptions`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, ProtocolFault, error_from_code
from kseg.client.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline


class ShareOffset(NamedTuple):
    """The first offset that is not done with (-1: delivery has not begun), and how many records wait (-1: unknown)."""

    start_offset: int
    leader_epoch: int
    lag: int


def describe_share_offsets(
    cluster: Cluster, group: str, partitions: Collection[TopicPartition] | None = None
) -> Results[TopicPartition, ShareOffset]:
    """The group's start offsets (partitions None: of every topic it has read); a group that is not there has none."""
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    if partitions is not None:
        asked.topics = [
            DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=[tp.partition for tp in members]
            )
            for topic, members in by_topic(partitions).items()
        ]
    request = DescribeShareGroupOffsetsRequest(groups=[asked])

    def attempt(deadline: Deadline) -> Results[TopicPartition, ShareOffset]:
        response = cluster.send_now(
            DescribeShareGroupOffsetsRequest, fixed(request), deadline, coordinator=("group", group)
        )
        found = next((entry for entry in response.groups if entry.group_id == group), None)
        if found is None:
            raise ProtocolFault("DescribeShareGroupOffsets response lacks the requested group", group=group)
        if found.error_code:
            raise error_from_code(
                found.error_code, "DescribeShareGroupOffsets", detail=found.error_message, group=group
            )
        return Results(
            {
                TopicPartition(topic.topic_name, entry.partition_index): outcome(
                    entry.error_code,
                    "DescribeShareGroupOffsets",
                    ShareOffset(entry.start_offset, entry.leader_epoch, entry.lag),
                    detail=entry.error_message,
                    group=group,
                    topic=topic.topic_name,
                    partition=entry.partition_index,
                )
                for topic in found.topics
                for entry in topic.partitions
            }
        )

    return cluster.retry(attempt, coordinator=("group", group))


def alter_share_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]
) -> Results[TopicPartition, None]:
    """Set where the group begins in each partition. A group that is not there yet is made by it."""

    def ask(waiting: list[TopicPartition], deadline: Deadline) -> dict[TopicPartition, KafkaError | None]:
        request = AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(
                            partition_index=tp.partition, start_offset=offsets[tp]
                        )
                        for tp in members
                    ],
                )
                for topic, members in by_topic(waiting).items()
            ],
        )
        response = cluster.send_now(
            AlterShareGroupOffsetsRequest, fixed(request), deadline, coordinator=("group", group)
        )
        if response.error_code:
            raise error_from_code(
                response.error_code, "AlterShareGroupOffsets", detail=response.error_message, group=group
            )
        return {
            TopicPartition(topic.topic_name, entry.partition_index): outcome(
                entry.error_code,
                "AlterShareGroupOffsets",
                None,
                detail=entry.error_message,
                group=group,
                topic=topic.topic_name,
                partition=entry.partition_index,
            )
            for topic in response.responses
            for entry in topic.partitions
        }

    return retry_failed_parts(cluster, offsets, ask, coordinator=("group", group))


def delete_share_offsets(cluster: Cluster, group: str, topics: Collection[str]) -> Results[str, None]:
    """Forget the group's offsets of whole topics. The group must have no members."""

    def ask(waiting: list[str], deadline: Deadline) -> dict[str, Any]:
        request = DeleteShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
                for topic in waiting
            ],
        )
        response = cluster.send_now(
            DeleteShareGroupOffsetsRequest, fixed(request), deadline, coordinator=("group", group)
        )
        if response.error_code:
            raise error_from_code(
                response.error_code, "DeleteShareGroupOffsets", detail=response.error_message, group=group
            )
        return {
            topic.topic_name: outcome(
                topic.error_code,
                "DeleteShareGroupOffsets",
                None,
                detail=topic.error_message,
                group=group,
                topic=topic.topic_name,
            )
            for topic in response.responses
        }

    return retry_failed_parts(cluster, topics, ask, coordinator=("group", group))
