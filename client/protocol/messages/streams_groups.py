"""Groups of Kafka Streams (KIP-1071)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.error_policy import DESCRIBED_GROUP, GROUP, NEW_MEMBER, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, struct, uint16
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"], key=88, versions="0", flexible="0+"):
    """StreamsGroupHeartbeat (API key 88): joins, stays in and leaves a streams group (KIP-1071).

    Who the member is, its topology, its tasks; null: nothing has changed since the last heartbeat.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, READ group")
    ERRORS = error_policy(
        f"{GROUP} GROUP_ID_NOT_FOUND INVALID_REQUEST GROUP_MAX_SIZE_REACHED "
        "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED STREAMS_INVALID_TOPOLOGY "
        "STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED",
        NEW_MEMBER,
    )

    class Topology(Struct):
        """The topology that the application runs; only when joining."""

        class Subtopology(Struct):
            """A part of the topology; a task runs it for one partition of its sources."""

            class TopicInfo(Struct):
                class KeyValue(Struct):
                    key: str = string("0+")
                    value: str = string("0+")

                name: str = string("0+")
                partitions: int = int32("0+")
                replication_factor: int = int16("0+")
                topic_configs: list[KeyValue] = array(KeyValue, "0+")

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

        epoch: int = int32("0+")
        subtopologies: list[Subtopology] = array(Subtopology, "0+")

    class TaskIds(Struct):
        subtopology_id: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    class Endpoint(Struct):
        host: str = string("0+")
        port: int = uint16("0+")

    class TaskOffset(Struct):
        subtopology_id: str = string("0+")
        partition: int = int32("0+")
        offset: int = int64("0+")

    Subtopology: TypeAlias = Topology.Subtopology
    TopicInfo: TypeAlias = Subtopology.TopicInfo
    KeyValue: TypeAlias = TopicInfo.KeyValue
    CopartitionGroup: TypeAlias = Subtopology.CopartitionGroup

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    endpoint_information_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = boolean("0+")


class StreamsGroupHeartbeatResponse(Response, answers=StreamsGroupHeartbeatRequest):
    """The member's epoch, what is wrong with the group, the tasks to run."""

    class Status(Struct):
        """0 stale topology, 1 no source topics, 2 wrongly partitioned, 3 no internal topics, 4 shutdown, 5 delayed."""

        status_code: int = int8("0+")
        status_detail: str = string("0+")

    class TaskIds(Struct):
        subtopology_id: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    class EndpointToPartitions(Struct):
        class Endpoint(Struct):
            host: str = string("0+")
            port: int = uint16("0+")

        class TopicPartition(Struct):
            topic: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        user_endpoint: Endpoint = struct(Endpoint, "0+")
        active_partitions: list[TopicPartition] = array(TopicPartition, "0+")
        standby_partitions: list[TopicPartition] = array(TopicPartition, "0+")

    Endpoint: TypeAlias = EndpointToPartitions.Endpoint
    TopicPartition: TypeAlias = EndpointToPartitions.TopicPartition

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    acceptable_recovery_lag: int = int32("0+")
    task_offset_interval_ms: int = int32("0+")
    status: list[Status] | None = array(Status, "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    endpoint_information_epoch: int = int32("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"], key=89, versions="0", flexible="0+"):
    """StreamsGroupDescribe (API key 89): returns state, topology and members of streams groups (KIP-1071).

    Groups by id.
    """

    ROUTE = Route(RequestTarget.GROUP_COORDINATOR)
    PERMISSIONS = permissions("DESCRIBE topic, DESCRIBE group")
    ERRORS = error_policy(DESCRIBED_GROUP)

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class _KeyValue(Struct):
    key: str = string("0+")
    value: str = string("0+")


class StreamsGroupDescribeResponse(Response, answers=StreamsGroupDescribeRequest):
    """One description a group."""

    class DescribedGroup(Struct):
        class Topology(Struct):
            class Subtopology(Struct):
                class TopicInfo(Struct):
                    name: str = string("0+")
                    partitions: int = int32("0+")
                    replication_factor: int = int16("0+")
                    topic_configs: list[_KeyValue] = array(_KeyValue, "0+")

                subtopology_id: str = string("0+")
                source_topics: list[str] = array(string, "0+")
                repartition_sink_topics: list[str] = array(string, "0+")
                state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
                repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")

            epoch: int = int32("0+")
            subtopologies: list[Subtopology] | None = array(Subtopology, "0+", nullable="0+", default=None)

        class Member(Struct):
            class Endpoint(Struct):
                host: str = string("0+")
                port: int = uint16("0+")

            class TaskOffset(Struct):
                subtopology_id: str = string("0+")
                partition: int = int32("0+")
                offset: int = int64("0+")

            class Assignment(Struct):
                class TaskIds(Struct):
                    subtopology_id: str = string("0+")
                    partitions: list[int] = array(int32, "0+")

                active_tasks: list[TaskIds] = array(TaskIds, "0+")
                standby_tasks: list[TaskIds] = array(TaskIds, "0+")
                warmup_tasks: list[TaskIds] = array(TaskIds, "0+")

            member_id: str = string("0+")
            member_epoch: int = int32("0+")
            instance_id: str | None = string("0+", nullable="0+", default=None)
            rack_id: str | None = string("0+", nullable="0+", default=None)
            client_id: str = string("0+")
            client_host: str = string("0+")
            topology_epoch: int = int32("0+")
            process_id: str = string("0+")
            user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
            client_tags: list[_KeyValue] = array(_KeyValue, "0+")
            task_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            assignment: Assignment = struct(Assignment, "0+")
            target_assignment: Assignment = struct(Assignment, "0+")
            is_classic: bool = boolean("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-2147483648)

    KeyValue: TypeAlias = _KeyValue
    Topology: TypeAlias = DescribedGroup.Topology
    Subtopology: TypeAlias = Topology.Subtopology
    TopicInfo: TypeAlias = Subtopology.TopicInfo
    Member: TypeAlias = DescribedGroup.Member
    Endpoint: TypeAlias = Member.Endpoint
    TaskOffset: TypeAlias = Member.TaskOffset
    Assignment: TypeAlias = Member.Assignment
    TaskIds: TypeAlias = Assignment.TaskIds

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
