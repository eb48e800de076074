"""AlterShareGroupOffsets (API key 91): sets where a share group without members starts in partitions (KIP-932)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"], key=91, versions="0", flexible="0+"):
    """New start offsets."""

    class AlterShareGroupOffsetsRequestTopic(Struct):
        class AlterShareGroupOffsetsRequestPartition(Struct):
            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition, "0+")

    AlterShareGroupOffsetsRequestPartition: TypeAlias = (
        AlterShareGroupOffsetsRequestTopic.AlterShareGroupOffsetsRequestPartition
    )

    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic, "0+")


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """An error per partition."""

    class AlterShareGroupOffsetsResponseTopic(Struct):
        class AlterShareGroupOffsetsResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)

        topic_name: str = string("0+")
        topic_id: UUID = uuid("0+")
        partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition, "0+")

    AlterShareGroupOffsetsResponsePartition: TypeAlias = (
        AlterShareGroupOffsetsResponseTopic.AlterShareGroupOffsetsResponsePartition
    )

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic, "0+")
