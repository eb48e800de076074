"""DescribeTopicPartitions (API key 75): tells about topics in pages (KIP-966)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, string, struct, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+"):
    """Topics by name, where to go on, and at most how many partitions to tell."""

    class TopicRequest(Struct):
        name: str = string("0+")

    class Cursor(Struct):
        """The first partition to tell."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
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
