"""OffsetDelete (API key 47): deletes a group's offsets of topics that it does not read any more (KIP-496).

Goes to the group's coordinator.

It never became flexible.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0"):
    """Partitions by topic."""

    class OffsetDeleteRequestTopic(Struct):
        class OffsetDeleteRequestPartition(Struct):
            partition_index: int = int32("0+")

        name: str = string("0+")
        partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+")

    OffsetDeleteRequestPartition: TypeAlias = OffsetDeleteRequestTopic.OffsetDeleteRequestPartition

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+")


class OffsetDeleteResponse(Response, key=47, versions="0"):
    """An error per partition."""

    class OffsetDeleteResponseTopic(Struct):
        class OffsetDeleteResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+")

    OffsetDeleteResponsePartition: TypeAlias = OffsetDeleteResponseTopic.OffsetDeleteResponsePartition

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+")
