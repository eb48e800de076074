"""Records of `__remote_log_metadata`: which segments tiered storage holds (KIP-405).

What precedes the message: internal_topics.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, boolean, byte_string, int8, int32, int64, string, struct, uuid
from kseg.client.protocol.schema import Struct


class RemoteLogSegmentMetadataRecord(TypedMessage, key=0, versions="0", flexible="0+"):
    """A segment is being copied, or has been."""

    class RemoteLogSegmentIdEntry(Struct):
        class TopicIdPartitionEntry(Struct):
            name: str = string("0+")
            id: UUID = uuid("0+")
            partition: int = int32("0+")

        topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry, "0+")
        id: UUID = uuid("0+")

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32("0+")
        offset: int = int64("0+")

    TopicIdPartitionEntry: TypeAlias = RemoteLogSegmentIdEntry.TopicIdPartitionEntry

    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry, "0+")
    start_offset: int = int64("0+")
    end_offset: int = int64("0+")
    broker_id: int = int32("0+")
    max_timestamp_ms: int = int64("0+")
    event_timestamp_ms: int = int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = int32("0+")
    custom_metadata: bytes | None = byte_string("0+", nullable="0+", default=None)
    remote_log_segment_state: int = int8("0+")
    txn_index_empty: bool = boolean("0+", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(TypedMessage, key=1, versions="0", flexible="0+"):
    """A segment's state has changed."""

    class RemoteLogSegmentIdEntry(Struct):
        class TopicIdPartitionEntry(Struct):
            name: str = string("0+")
            id: UUID = uuid("0+")
            partition: int = int32("0+")

        topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry, "0+")
        id: UUID = uuid("0+")

    TopicIdPartitionEntry: TypeAlias = RemoteLogSegmentIdEntry.TopicIdPartitionEntry

    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry, "0+")
    broker_id: int = int32("0+")
    event_timestamp_ms: int = int64("0+")
    custom_metadata: bytes | None = byte_string("0+", nullable="0+", default=None)
    remote_log_segment_state: int = int8("0+")


class RemotePartitionDeleteMetadataRecord(TypedMessage, key=2, versions="0", flexible="0+"):
    """A partition's deletion from tiered storage."""

    class TopicIdPartitionEntry(Struct):
        name: str = string("0+")
        id: UUID = uuid("0+")
        partition: int = int32("0+")

    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry, "0+")
    broker_id: int = int32("0+")
    event_timestamp_ms: int = int64("0+")
    remote_partition_delete_state: int = int8("0+")


class RemoteLogSegmentMetadataSnapshotRecord(TypedMessage, key=3, versions="0", flexible="0+"):
    """A segment, as brokers keep it in their own snapshot files."""

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32("0+")
        offset: int = int64("0+")

    segment_id: UUID = uuid("0+")
    start_offset: int = int64("0+")
    end_offset: int = int64("0+")
    broker_id: int = int32("0+")
    max_timestamp_ms: int = int64("0+")
    event_timestamp_ms: int = int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = int32("0+")
    custom_metadata: bytes | None = byte_string("0+", nullable="0+", default=None)
    remote_log_segment_state: int = int8("0+")
    txn_index_empty: bool = boolean("0+", tag=0)
