"""Metadata (API key 3): brokers, topics, and who leads each partition.

v1   null asks for all topics, an empty list for none (in v0 an empty list asks for all); controller, racks
v2   cluster id
v3   tells the throttle time
v4   `allow_auto_topic_creation`: below, asking for a topic that is not there creates it
v5   offline replicas
v6   throttles after the answer
v7   leader epochs (KIP-320)
v8   authorized operations
v9   flexible
v10  topic ids in the answer (KIP-516)
v11  no authorized operations of the cluster any more (DescribeCluster has them, KIP-700)
v12  topics can be asked for by id
v13  an error for the whole answer: REBOOTSTRAP_REQUIRED (KIP-1102)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class MetadataRequest(Request["MetadataResponse"], key=3, versions="0-13", flexible="9+"):
    """Asks for topics; null means all (from v1)."""

    class MetadataRequestTopic(Struct):
        """A topic by its name or, from v12, by its id with name null."""

        topic_id: UUID = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    """The cluster as this broker sees it."""

    class MetadataResponseBroker(Struct):
        """Where a broker listens."""

        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    class MetadataResponseTopic(Struct):
        """A topic, or why there is none: look at `error_code` first."""

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
