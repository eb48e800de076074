"""Changes groups from outside. `client.groups.descriptions` describes groups and their members.

    delete_groups          DeleteGroups (42)   each group's coordinator; a group with members stays
    delete_group_offsets   OffsetDelete (47)   the group's coordinator; topics that a member subscribes to keep theirs
    remove_members         LeaveGroup (13)     the group's coordinator; static members by their instance id

Sources: KIP-229, KIP-496, KIP-345 and KIP-571 (members removed by an administrator).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import DeleteGroupsRequest, LeaveGroupRequest
from kseg.client.protocol.messages.offsets import OffsetDeleteRequest
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline

_FIRST_WITH_MEMBERS: Final = 3
_FIRST_WITH_REASON: Final = 5


def delete_groups(cluster: Cluster, groups: Collection[str]) -> Results[str, None]:
    """Delete groups of any type with all their offsets. Errors: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND …"""
    results: Results[str, None] = Results()
    for group in groups:

        def ask(_: list[str], deadline: Deadline, group: str = group) -> dict[str, KafkaError | None]:
            request = DeleteGroupsRequest(groups_names=[group])
            response = cluster.send_now(DeleteGroupsRequest, fixed(request), deadline, coordinator=("group", group))
            return {
                result.group_id: outcome(result.error_code, "DeleteGroups", None, group=result.group_id)
                for result in response.results
            }

        try:
            results |= retry_failed_parts(cluster, [group], ask, coordinator=("group", group))
        except KafkaError as error:
            results[group] = error
    return results


def delete_group_offsets(
    cluster: Cluster, group: str, partitions: Collection[TopicPartition]
) -> Results[TopicPartition, None]:
    """Forget what the group has committed for these partitions. GROUP_SUBSCRIBED_TO_TOPIC: a member still reads it."""

    def ask(waiting: list[TopicPartition], deadline: Deadline) -> dict[TopicPartition, KafkaError | None]:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=tp.partition) for tp in members
                    ],
                )
                for topic, members in by_topic(waiting).items()
            ],
        )
        response = cluster.send_now(OffsetDeleteRequest, fixed(request), deadline, coordinator=("group", group))
        if response.error_code:
            raise error_from_code(response.error_code, "OffsetDelete", group=group)
        return {
            TopicPartition(topic.name, entry.partition_index): outcome(
                entry.error_code,
                "OffsetDelete",
                None,
                group=group,
                topic=topic.name,
                partition=entry.partition_index,
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    return retry_failed_parts(
        cluster, partitions, ask, coordinator=("group", group), final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    )


def remove_members(
    cluster: Cluster, group: str, instance_ids: Collection[str], *, reason: str | None = None
) -> Results[str, None]:
    """Have static members of a classic or consumer group leave it, by instance id; `reason` is for the broker's log."""

    def ask(waiting: list[str], deadline: Deadline) -> dict[str, Any]:
        def build(version: int) -> LeaveGroupRequest:
            if version < _FIRST_WITH_MEMBERS:
                raise UnsupportedVersion("the broker is too old for static members", group=group)
            members = [
                LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=instance_id) for instance_id in waiting
            ]
            for member in members:
                if version >= _FIRST_WITH_REASON:
                    member.reason = reason
            return LeaveGroupRequest(group_id=group, members=members)

        response = cluster.send_now(LeaveGroupRequest, build, deadline, coordinator=("group", group))
        if response.error_code:
            raise error_from_code(response.error_code, "LeaveGroup", group=group)
        return {
            member.group_instance_id or "": outcome(
                member.error_code, "LeaveGroup", None, group=group, resource=f"member {member.group_instance_id}"
            )
            for member in response.members
        }

    return retry_failed_parts(cluster, instance_ids, ask, coordinator=("group", group))
