"""OffsetFetch (API key 9): a group's committed offsets.

v0   from ZooKeeper, where only a commit of version 0 goes
v1   from the offsets topic; the oldest version that 4.0 takes
v2   null asks for all topics; an error for the whole answer
v3   tells the throttle time; v4 throttles after the answer
v5   leader epochs (KIP-320)
v6   flexible
v7   `require_stable`: UNSTABLE_OFFSET_COMMIT while a transaction that commits the offset is open (KIP-447)
v8   many groups at once (KIP-709): `groups`, where older versions have `group_id` and `topics`
v9   members of the new protocol say who they are (KIP-848)
v10  topics by id alone
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class OffsetFetchRequest(Request["OffsetFetchResponse"], key=9, versions="0-10", flexible="6+", deprecated="0"):
    """Groups (one up to v7), and of which topics."""

    class OffsetFetchRequestTopic(Struct):
        """Up to v7."""

        name: str = string("0-7")
        partition_indexes: list[int] = array(int32, "0-7")

    class OffsetFetchRequestGroup(Struct):
        """`topics` null asks for all that the group has committed."""

        class OffsetFetchRequestTopics(Struct):
            """From v8: by name up to v9, by id from v10."""

            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partition_indexes: list[int] = array(int32, "8+")

        group_id: str = string("8+")
        member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32("9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")

    OffsetFetchRequestTopics: TypeAlias = OffsetFetchRequestGroup.OffsetFetchRequestTopics

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponse(Response, key=9, versions="0-10", flexible="6+"):
    """Per group (one up to v7) and partition; offset -1 where none is committed."""

    class OffsetFetchResponseTopic(Struct):
        """Up to v7."""

        class OffsetFetchResponsePartition(Struct):
            partition_index: int = int32("0-7")
            committed_offset: int = int64("0-7")
            committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
            metadata: str | None = string("0-7", nullable="0-7")
            error_code: int = int16("0-7")

        name: str = string("0-7")
        partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")

    class OffsetFetchResponseGroup(Struct):
        class OffsetFetchResponseTopics(Struct):
            """From v8: by name up to v9, by id from v10."""

            class OffsetFetchResponsePartitions(Struct):
                partition_index: int = int32("8+")
                committed_offset: int = int64("8+")
                committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
                metadata: str | None = string("8+", nullable="8+")
                error_code: int = int16("8+")

            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")

        group_id: str = string("8+")
        topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
        error_code: int = int16("8+")

    OffsetFetchResponsePartition: TypeAlias = OffsetFetchResponseTopic.OffsetFetchResponsePartition
    OffsetFetchResponsePartitions: TypeAlias = (
        OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
    )
    OffsetFetchResponseTopics: TypeAlias = OffsetFetchResponseGroup.OffsetFetchResponseTopics

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
