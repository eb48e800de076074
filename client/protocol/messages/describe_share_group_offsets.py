"""DescribeShareGroupOffsets (API key 90): tells where share groups start in partitions (KIP-932).

v1  lag (KIP-1226)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], key=90, versions="0-1", flexible="0+"
):
    """Groups; null topics ask for all of a group's."""

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        class DescribeShareGroupOffsetsRequestTopic(Struct):
            topic_name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
            DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
        )

    DescribeShareGroupOffsetsRequestTopic: TypeAlias = (
        DescribeShareGroupOffsetsRequestGroup.DescribeShareGroupOffsetsRequestTopic
    )

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup, "0+")


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """Start offsets per partition, -1 where there is none."""

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        class DescribeShareGroupOffsetsResponseTopic(Struct):
            class DescribeShareGroupOffsetsResponsePartition(Struct):
                partition_index: int = int32("0+")
                start_offset: int = int64("0+")
                leader_epoch: int = int32("0+")
                lag: int = int64("1+", default=-1, ignorable=True)
                error_code: int = int16("0+")
                error_message: str | None = string("0+", nullable="0+", default=None)

            topic_name: str = string("0+")
            topic_id: UUID = uuid("0+")
            partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
                DescribeShareGroupOffsetsResponsePartition, "0+"
            )

        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic, "0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    DescribeShareGroupOffsetsResponseTopic: TypeAlias = (
        DescribeShareGroupOffsetsResponseGroup.DescribeShareGroupOffsetsResponseTopic
    )
    DescribeShareGroupOffsetsResponsePartition: TypeAlias = (
        DescribeShareGroupOffsetsResponseTopic.DescribeShareGroupOffsetsResponsePartition
    )

    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup, "0+")
