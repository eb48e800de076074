"""Streams groups in `__consumer_offsets` (KIP-1071).

Keys begin with their type: 17 group, 19 member, 20 and 21 the target assignment, 22 a member's current assignment, 23
the topology. The group's committed offsets: group_records.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, struct, uint16
from kseg.client.protocol.schema import Struct


class StreamsGroupMetadataKey(TypedMessage, key=17, versions="0"):
    """A group."""

    group_id: str = string("0")


class StreamsGroupMetadataValue(TypedMessage, key=17, versions="0", flexible="0+"):
    """A group's epoch: it rises when members, topics or the topology change."""

    class LastAssignmentConfig(Struct):
        key: str = string("0+")
        value: str = string("0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")
    validated_topology_epoch: int = int32("0+", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(LastAssignmentConfig, "0+", nullable="0+", tag=1)


class StreamsGroupMemberMetadataKey(TypedMessage, key=19, versions="0"):
    """A member."""

    group_id: str = string("0")
    member_id: str = string("0")


class StreamsGroupMemberMetadataValue(TypedMessage, key=19, versions="0", flexible="0+"):
    """A member's metadata, from its heartbeats."""

    class Endpoint(Struct):
        host: str = string("0+")
        port: int = uint16("0+")

    class KeyValue(Struct):
        key: str = string("0+")
        value: str = string("0+")

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+")


class StreamsGroupTargetAssignmentMetadataKey(TypedMessage, key=20, versions="0"):
    """A group's target assignment."""

    group_id: str = string("0")


class StreamsGroupTargetAssignmentMetadataValue(TypedMessage, key=20, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(TypedMessage, key=21, versions="0"):
    """A member's part of the target assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class StreamsGroupTargetAssignmentMemberValue(TypedMessage, key=21, versions="0", flexible="0+"):
    """The member's target tasks."""

    class TaskIds(Struct):
        subtopology_id: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")


class StreamsGroupCurrentMemberAssignmentKey(TypedMessage, key=22, versions="0"):
    """A member's current assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class StreamsGroupCurrentMemberAssignmentValue(TypedMessage, key=22, versions="0", flexible="0+"):
    """The member's current tasks, and those that it has to revoke first."""

    class TaskIds(Struct):
        subtopology_id: str = string("0+")
        partitions: list[int] = array(int32, "0+")
        assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tag=0)

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")


class StreamsGroupTopologyKey(TypedMessage, key=23, versions="0"):
    """A group's topology."""

    group_id: str = string("0")


class StreamsGroupTopologyValue(TypedMessage, key=23, versions="0", flexible="0+"):
    """The topology that the group's members run."""

    class Subtopology(Struct):
        class TopicInfo(Struct):
            class TopicConfig(Struct):
                key: str = string("0+")
                value: str = string("0+")

            name: str = string("0+")
            partitions: int = int32("0+")
            replication_factor: int = int16("0+")
            topic_configs: list[TopicConfig] = array(TopicConfig, "0+")

        class CopartitionGroup(Struct):
            source_topics: list[int] = array(int16, "0+")
            source_topic_regex: list[int] = array(int16, "0+")
            repartition_source_topics: list[int] = array(int16, "0+")

        subtopology_id: str = string("0+")
        source_topics: list[str] = array(string, "0+")
        source_topic_regex: list[str] = array(string, "0+")
        state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
        repartition_sink_topics: list[str] = array(string, "0+")
        repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")
        copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+")

    TopicInfo: TypeAlias = Subtopology.TopicInfo
    TopicConfig: TypeAlias = TopicInfo.TopicConfig
    CopartitionGroup: TypeAlias = Subtopology.CopartitionGroup

    epoch: int = int32("0+")
    subtopologies: list[Subtopology] = array(Subtopology, "0+")
