"""Topics, their partitions, and the removal of records from their start."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import CONTROLLER, LEADER, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct

_TOPIC_CHANGE: Final = (
    f"{CONTROLLER} INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED POLICY_VIOLATION THROTTLING_QUOTA_EXCEEDED"
)


class CreateTopicsRequest(
    Request["CreateTopicsResponse"], key=19, versions="0-7", flexible="5+", deprecated="0-1", client_waits="3+"
):
    """CreateTopics (API key 19): creates topics; goes to the controller.

    v1  error messages, dry runs
    v2  throttle time; the oldest version that 4.0 takes
    v3  throttles after the response
    v4  -1 partitions or replicas mean the broker's default (KIP-464)
    v5  flexible; the response has the topic's configuration (KIP-525)
    v6  THROTTLING_QUOTA_EXCEEDED (KIP-599)
    v7  topic ids (KIP-516)

    Topics to create.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.VERIFY_FIRST, verify_with="Metadata")
    PERMISSIONS = permissions("CREATE topic, CREATE cluster")
    ERRORS = error_policy(
        f"{_TOPIC_CHANGE} TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR "
        "INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG",
    )

    class CreatableTopic(Struct):
        """With `assignments`, `num_partitions` and `replication_factor` are -1."""

        class CreatableReplicaAssignment(Struct):
            """The first broker is the preferred leader."""

            partition_index: int = int32("0+")
            broker_ids: list[int] = array(int32, "0+")

        class CreatableTopicConfig(Struct):
            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        num_partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
        configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")

    CreatableReplicaAssignment: TypeAlias = CreatableTopic.CreatableReplicaAssignment
    CreatableTopicConfig: TypeAlias = CreatableTopic.CreatableTopicConfig

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreateTopicsResponse(Response, answers=CreateTopicsRequest):
    """The result of each."""

    class CreatableTopicResult(Struct):
        """`topic_config_error_code` is set if the client is not authorized to see the configuration."""

        class CreatableTopicConfigs(Struct):
            name: str = string("5+")
            value: str | None = string("5+", nullable="5+")
            read_only: bool = boolean("5+")
            config_source: int = int8("5+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("5+")

        name: str = string("0+")
        topic_id: UUID = uuid("7+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
        num_partitions: int = int32("5+", default=-1, ignorable=True)
        replication_factor: int = int16("5+", default=-1, ignorable=True)
        configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)

    CreatableTopicConfigs: TypeAlias = CreatableTopicResult.CreatableTopicConfigs

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


class DeleteTopicsRequest(
    Request["DeleteTopicsResponse"], key=20, versions="0-6", flexible="4+", deprecated="0", client_waits="2+"
):
    """DeleteTopics (API key 20): deletes topics; goes to the controller.

    v1  throttle time; the oldest version that 4.0 takes
    v2  throttles after the response
    v3  TOPIC_DELETION_DISABLED
    v4  flexible
    v5  error messages; THROTTLING_QUOTA_EXCEEDED (KIP-599)
    v6  by name or by id (KIP-516): `topics`, where older versions have `topic_names`

    Topics to delete.
    """

    # Another client may have created a topic of that name meanwhile.
    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.VERIFY_FIRST, verify_with="Metadata")
    PERMISSIONS = permissions("DELETE topic")
    ERRORS = error_policy(
        f"{_TOPIC_CHANGE} TOPIC_DELETION_DISABLED",
        # The controller says that it does not exist: that is not stale metadata.
        FAIL="UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID",
    )

    class DeleteTopicState(Struct):
        """Either a name or, with name null, an id."""

        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: UUID = uuid("6+")

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class DeleteTopicsResponse(Response, answers=DeleteTopicsRequest):
    """The result of each."""

    class DeletableTopicResult(Struct):
        name: str | None = string("0+", nullable="6+")
        topic_id: UUID = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


class CreatePartitionsRequest(
    Request["CreatePartitionsResponse"], key=37, versions="0-3", flexible="2+", client_waits="1+"
):
    """CreatePartitions (API key 37): adds partitions to topics (KIP-195); goes to the controller.

    v1  throttles after the response
    v2  flexible
    v3  THROTTLING_QUOTA_EXCEEDED (KIP-599)

    The new number of partitions of each topic, existing ones included.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.VERIFY_FIRST, verify_with="Metadata")
    PERMISSIONS = permissions("ALTER topic")
    ERRORS = error_policy(
        f"{_TOPIC_CHANGE} INVALID_PARTITIONS INVALID_REPLICA_ASSIGNMENT REASSIGNMENT_IN_PROGRESS",
        FAIL="UNKNOWN_TOPIC_OR_PARTITION",
    )

    class CreatePartitionsTopic(Struct):
        """Null assignments leave the placement to the controller."""

        class CreatePartitionsAssignment(Struct):
            """Replicas of one new partition; the first is the preferred leader."""

            broker_ids: list[int] = array(int32, "0+")

        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")

    CreatePartitionsAssignment: TypeAlias = CreatePartitionsTopic.CreatePartitionsAssignment

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsResponse(Response, answers=CreatePartitionsRequest):
    """An error per topic."""

    class CreatePartitionsTopicResult(Struct):
        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], key=21, versions="0-2", flexible="2+", client_waits="1+"):
    """DeleteRecords (API key 21): deletes a partition's records before an offset; goes to the leader.

    v1  throttles after the response
    v2  flexible

    The first offset to keep per partition; -1 is the high watermark.
    """

    # Offset -1 is the current high watermark: a second request may delete records that came after the first.
    ROUTE = Route(
        RequestTarget.LEADER, RetrySafety.VERIFY_FIRST, verify_with="ListOffsets", note="yes up to a given offset"
    )
    PERMISSIONS = permissions("DELETE topic")
    ERRORS = error_policy(f"{LEADER} OFFSET_OUT_OF_RANGE TOPIC_AUTHORIZATION_FAILED POLICY_VIOLATION REQUEST_TIMED_OUT")

    class DeleteRecordsTopic(Struct):
        class DeleteRecordsPartition(Struct):
            partition_index: int = int32("0+")
            offset: int = int64("0+")

        name: str = string("0+")
        partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")

    DeleteRecordsPartition: TypeAlias = DeleteRecordsTopic.DeleteRecordsPartition

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsResponse(Response, answers=DeleteRecordsRequest):
    """The new log start offset per partition."""

    class DeleteRecordsTopicResult(Struct):
        class DeleteRecordsPartitionResult(Struct):
            partition_index: int = int32("0+")
            low_watermark: int = int64("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")

    DeleteRecordsPartitionResult: TypeAlias = DeleteRecordsTopicResult.DeleteRecordsPartitionResult

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")
