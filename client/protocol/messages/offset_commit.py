"""OffsetCommit (API key 8): stores a group's offsets, outside of a transaction.

    v0   into ZooKeeper, where no later version looks
    v1   into the offsets topic; the member; a time for each offset
    v2   one retention time for all in its place; the oldest version that 4.0 takes
    v3   the answer tells the throttle time; v4 throttles after it
    v5   no retention time any more: the broker's configuration decides
    v6   leader epoch of the last record read (KIP-320)
    v7   instance id of a static member (KIP-345)
    v8   flexible
    v9   groups of the new protocol (KIP-848)
    v10  topics by id alone

A commit from outside of the group (it must have no live members) carries generation -1 and member id "".
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class OffsetCommitRequest(Request["OffsetCommitResponse"], key=8, versions="0-10", flexible="8+", deprecated="0-1"):
    """Offsets per partition, and who commits them."""

    class OffsetCommitRequestTopic(Struct):
        """A topic: by name up to v9, by id from v10."""

        class OffsetCommitRequestPartition(Struct):
            """`committed_offset` is the next one to read; `commit_timestamp` -1 is the broker's time."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
            commit_timestamp: int = int64("1", default=-1)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")

    OffsetCommitRequestPartition: TypeAlias = OffsetCommitRequestTopic.OffsetCommitRequestPartition

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponse(Response, key=8, versions="0-10", flexible="8+"):
    """An error per partition."""

    class OffsetCommitResponseTopic(Struct):
        """A topic: by name up to v9, by id from v10."""

        class OffsetCommitResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")

    OffsetCommitResponsePartition: TypeAlias = OffsetCommitResponseTopic.OffsetCommitResponsePartition

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")
