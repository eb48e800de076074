"""OffsetForLeaderEpoch (API key 23): where a leader epoch ended.

That is how a reader finds out that the log was cut short behind its back.

v1  the answer tells the epoch too
v2  the leader epoch that the reader believes in (KIP-320); the oldest version that 4.0 takes
v3  replica id: -2 is a reader that may see past the high watermark, -1 a consumer
v4  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class OffsetForLeaderEpochRequest(
    Request["OffsetForLeaderEpochResponse"], key=23, versions="0-4", flexible="4+", deprecated="0-1"
):
    """An epoch per partition."""

    class OffsetForLeaderTopic(Struct):
        class OffsetForLeaderPartition(Struct):
            partition: int = int32("0+")
            current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            leader_epoch: int = int32("0+")

        topic: str = string("0+")
        partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")

    OffsetForLeaderPartition: TypeAlias = OffsetForLeaderTopic.OffsetForLeaderPartition

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")


class OffsetForLeaderEpochResponse(Response, key=23, versions="0-4", flexible="4+"):
    """Per partition: the largest epoch at or below the one asked for, and the offset after its last record."""

    class OffsetForLeaderTopicResult(Struct):
        class EpochEndOffset(Struct):
            """-1 and -1 where the broker knows nothing of such an epoch."""

            error_code: int = int16("0+")
            partition: int = int32("0+")
            leader_epoch: int = int32("1+", default=-1, ignorable=True)
            end_offset: int = int64("0+", default=-1)

        topic: str = string("0+")
        partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")

    EpochEndOffset: TypeAlias = OffsetForLeaderTopicResult.EpochEndOffset

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")
