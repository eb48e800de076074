"""Brokers, topics and partitions of a cluster, and the coordinators of groups and transactions."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.error_policy import ABORTABLE, error_policy
from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string, struct, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, Route
from kseg.client.protocol.schema import Request, Response, Struct


class MetadataRequest(Request["MetadataResponse"], key=3, versions="0-13", flexible="9+", client_waits="6+"):
    """Metadata (API key 3): brokers, topics, and who leads each partition.

    v1   null asks for all topics, an empty list for none (in v0 an empty list asks for all); controller, racks
    v2   cluster id
    v3   has the throttle time
    v4   `allow_auto_topic_creation`: below, naming a topic that does not exist creates it
    v5   offline replicas
    v6   throttles after the response
    v7   leader epochs (KIP-320)
    v8   authorized operations
    v9   flexible
    v10  topic ids in the response (KIP-516)
    v11  no authorized operations of the cluster any more (DescribeCluster has them, KIP-700)
    v12  topics can be requested by id
    v13  an error for the whole response: REBOOTSTRAP_REQUIRED (KIP-1102)

    The topics; null means all (from v1).
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE topic, CREATE cluster")
    ERRORS = error_policy(
        "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND "
        "INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED REBOOTSTRAP_REQUIRED",
        # Some replicas of a partition are down; the response has its leader.
        DONE="REPLICA_NOT_AVAILABLE",
    )

    class MetadataRequestTopic(Struct):
        """A topic by its name or, from v12, by its id with name null."""

        topic_id: UUID = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponse(Response, answers=MetadataRequest):
    """The cluster as this broker sees it."""

    class MetadataResponseBroker(Struct):
        """The address of a broker."""

        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    class MetadataResponseTopic(Struct):
        """A topic, or why there is none: check `error_code` first."""

        class MetadataResponsePartition(Struct):
            """`leader_id` is -1 while there is no leader."""

            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("7+", default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32, "0+")
            isr_nodes: list[int] = array(int32, "0+")
            offline_replicas: list[int] = array(int32, "5+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="12+")
        topic_id: UUID = uuid("10+", ignorable=True)
        is_internal: bool = boolean("1+", ignorable=True)
        partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
        topic_authorized_operations: int = int32("8+", default=-2147483648)

    MetadataResponsePartition: TypeAlias = MetadataResponseTopic.MetadataResponsePartition

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", ignorable=True)


class DescribeClusterRequest(Request["DescribeClusterResponse"], key=60, versions="0-2", flexible="0+"):
    """DescribeCluster (API key 60): brokers, controller and id of the cluster (KIP-700).

    v1  endpoint type: 1 brokers, 2 controllers (KIP-919)
    v2  fenced brokers too, on demand (KIP-1073)

    What to include.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy(
        "CLUSTER_AUTHORIZATION_FAILED MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE "
        "INVALID_REQUEST UNSUPPORTED_VERSION",
    )

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterResponse(Response, answers=DescribeClusterRequest):
    """The cluster."""

    class DescribeClusterBroker(Struct):
        broker_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)
        is_fenced: bool = boolean("2+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-2147483648)


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+", client_waits="0+"
):
    """DescribeTopicPartitions (API key 75): describes topics in pages (KIP-966).

    Topics by name, where to continue, and the maximum number of partitions to return.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE topic")
    ERRORS = error_policy(
        "UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION INVALID_REQUEST"
    )

    class TopicRequest(Struct):
        name: str = string("0+")

    class Cursor(Struct):
        """The first partition to return."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponse(Response, answers=DescribeTopicPartitionsRequest):
    """A page; `next_cursor` is null on the last one."""

    class DescribeTopicPartitionsResponseTopic(Struct):
        class DescribeTopicPartitionsResponsePartition(Struct):
            """Null where the broker keeps no eligible leader replicas."""

            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+", default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32, "0+")
            isr_nodes: list[int] = array(int32, "0+")
            eligible_leader_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)
            last_known_elr: list[int] | None = array(int32, "0+", nullable="0+", default=None)
            offline_replicas: list[int] = array(int32, "0+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="0+")
        topic_id: UUID = uuid("0+", ignorable=True)
        is_internal: bool = boolean("0+", ignorable=True)
        partitions: list[DescribeTopicPartitionsResponsePartition] = array(
            DescribeTopicPartitionsResponsePartition, "0+"
        )
        topic_authorized_operations: int = int32("0+", default=-2147483648)

    class Cursor(Struct):
        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    DescribeTopicPartitionsResponsePartition: TypeAlias = (
        DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition
    )

    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


class FindCoordinatorRequest(
    Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+", client_waits="2+"
):
    """FindCoordinator (API key 10): which broker is the coordinator of a group or a transactional id.

    v1  key types: 0 group, 1 transaction
    v2  throttles after the response
    v3  flexible
    v4  many keys at once (KIP-699)
    v5  TRANSACTION_ABORTABLE (KIP-890)
    v6  key type 2, share groups: "group:topic id:partition" (KIP-932)

    One key up to v3, many from v4.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE group, DESCRIBE transactional id")
    ERRORS = error_policy(
        "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS GROUP_AUTHORIZATION_FAILED "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_GROUP_ID INVALID_REQUEST",
        ABORTABLE,
    )

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class FindCoordinatorResponse(Response, answers=FindCoordinatorRequest):
    """One coordinator up to v3, one per key from v4."""

    class Coordinator(Struct):
        """If there is none, `node_id` is -1 and `error_code` says why."""

        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
