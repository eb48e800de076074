"""The placement of partitions: leaders, replicas and the folders on a broker's disks."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import CONTROLLER, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct


class ElectLeadersRequest(Request["ElectLeadersResponse"], key=43, versions="0-2", flexible="2+", client_waits="0+"):
    """ElectLeaders (API key 43): has the controller elect partitions' leaders.

    Type 0 elects the preferred leader, type 1 an unclean one if necessary (KIP-460).

    v1  election types; an error for the whole response
    v2  flexible

    Null asks for all partitions.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.ELECTION_NOT_NEEDED,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(
        f"{CONTROLLER} PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE "
        "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION",
        # Java calls it retriable, but the partition has the requested leader already.
        DONE="ELECTION_NOT_NEEDED",
        # The controller knows which brokers are alive: a retry does not bring one back.
        FAIL="PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION",
    )

    class TopicPartitions(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class ElectLeadersResponse(Response, answers=ElectLeadersRequest):
    """An error per partition."""

    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        topic: str = string("0+")
        partition_result: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = ReplicaElectionResult.PartitionResult

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], key=45, versions="0-1", flexible="0+", client_waits="0+"
):
    """AlterPartitionReassignments (API key 45): moves partitions to other brokers (KIP-455); goes to the controller.

    v1  whether the number of replicas may change (KIP-860)

    The target replicas per partition.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(
        f"{CONTROLLER} INVALID_REPLICA_ASSIGNMENT INVALID_REPLICATION_FACTOR "
        "NO_REASSIGNMENT_IN_PROGRESS UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION",
        FAIL="UNKNOWN_TOPIC_OR_PARTITION",
    )

    class ReassignableTopic(Struct):
        class ReassignablePartition(Struct):
            """Null replicas cancel a move under way."""

            partition_index: int = int32("0+")
            replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)

        name: str = string("0+")
        partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")

    ReassignablePartition: TypeAlias = ReassignableTopic.ReassignablePartition

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")


class AlterPartitionReassignmentsResponse(Response, answers=AlterPartitionReassignmentsRequest):
    """An error per partition."""

    class ReassignableTopicResponse(Struct):
        class ReassignablePartitionResponse(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")

    ReassignablePartitionResponse: TypeAlias = ReassignableTopicResponse.ReassignablePartitionResponse

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], key=46, versions="0", flexible="0+", client_waits="0+"
):
    """ListPartitionReassignments (API key 46): lists moves of partitions under way (KIP-455).

    Goes to the controller.

    Null asks for all topics.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy(f"{CONTROLLER} UNKNOWN_TOPIC_OR_PARTITION")

    class ListPartitionReassignmentsTopics(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array(int32, "0+")

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class ListPartitionReassignmentsResponse(Response, answers=ListPartitionReassignmentsRequest):
    """The moves."""

    class OngoingTopicReassignment(Struct):
        class OngoingPartitionReassignment(Struct):
            """All current replicas, and those of them that are being added and removed."""

            partition_index: int = int32("0+")
            replicas: list[int] = array(int32, "0+")
            adding_replicas: list[int] = array(int32, "0+")
            removing_replicas: list[int] = array(int32, "0+")

        name: str = string("0+")
        partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")

    OngoingPartitionReassignment: TypeAlias = OngoingTopicReassignment.OngoingPartitionReassignment

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], key=34, versions="0-2", flexible="2+", deprecated="0", client_waits="1+"
):
    """AlterReplicaLogDirs (API key 34): moves replicas between a broker's log directories (KIP-113).

    Goes to the broker that has them.

    v1  throttles after the response
    v2  flexible

    Per target directory, given by its absolute path: the partitions to move there.
    """

    ROUTE = Route(RequestTarget.NAMED_BROKER)
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(
        "LOG_DIR_NOT_FOUND KAFKA_STORAGE_ERROR REPLICA_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION "
        "INVALID_TOPIC_EXCEPTION CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
        # The broker has stored the directory for the time when it gets the replica, which may be never.
        FAIL="REPLICA_NOT_AVAILABLE",
    )

    class AlterReplicaLogDir(Struct):
        class AlterReplicaLogDirTopic(Struct):
            name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        path: str = string("0+")
        topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")

    AlterReplicaLogDirTopic: TypeAlias = AlterReplicaLogDir.AlterReplicaLogDirTopic

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirsResponse(Response, answers=AlterReplicaLogDirsRequest):
    """An error per partition."""

    class AlterReplicaLogDirTopicResult(Struct):
        class AlterReplicaLogDirPartitionResult(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        topic_name: str = string("0+")
        partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "0+")

    AlterReplicaLogDirPartitionResult: TypeAlias = AlterReplicaLogDirTopicResult.AlterReplicaLogDirPartitionResult

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")


class DescribeLogDirsRequest(
    Request["DescribeLogDirsResponse"], key=35, versions="0-5", flexible="2+", deprecated="0", client_waits="1+"
):
    """DescribeLogDirs (API key 35): the log directories of one broker, with their partitions and sizes.

    v1  the oldest version that 4.0 takes; throttles after the response
    v2  flexible
    v3  an error for the whole response
    v4  size and free space of the volume (KIP-827)
    v5  cordoned directories (KIP-1066)

    Null asks for all partitions.
    """

    ROUTE = Route(RequestTarget.ALL_BROKERS)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy(
        "CLUSTER_AUTHORIZATION_FAILED",
        # The state of the directory itself: reported, not retried.
        FAIL="KAFKA_STORAGE_ERROR",
    )

    class DescribableLogDirTopic(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsResponse(Response, answers=DescribeLogDirsRequest):
    """One result a log directory."""

    class DescribeLogDirsResult(Struct):
        """`total_bytes` and `usable_bytes` are -1 if they are unknown."""

        class DescribeLogDirsTopic(Struct):
            class DescribeLogDirsPartition(Struct):
                """Sizes in bytes; `offset_lag` behind the high watermark, or behind the log it is to replace."""

                partition_index: int = int32("0+")
                partition_size: int = int64("0+")
                offset_lag: int = int64("0+")
                is_future_key: bool = boolean("0+")

            name: str = string("0+")
            partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")

        error_code: int = int16("0+")
        log_dir: str = string("0+")
        topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
        total_bytes: int = int64("4+", default=-1, ignorable=True)
        usable_bytes: int = int64("4+", default=-1, ignorable=True)
        is_cordoned: bool = boolean("5+", ignorable=True)

    DescribeLogDirsPartition: TypeAlias = DescribeLogDirsResult.DescribeLogDirsTopic.DescribeLogDirsPartition
    DescribeLogDirsTopic: TypeAlias = DescribeLogDirsResult.DescribeLogDirsTopic

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
