"""FetchSnapshot (API key 59): reads a snapshot of the metadata log, piece by piece (KIP-630).

v1  directory id of the reader (KIP-853)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import ByteString, array, int16, int32, int64, record_set, string, struct, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class FetchSnapshotRequest(Request["FetchSnapshotResponse"], key=59, versions="0-1", flexible="0+", scope="controller"):
    """Snapshot and position."""

    class TopicSnapshot(Struct):
        class PartitionSnapshot(Struct):
            class SnapshotId(Struct):
                end_offset: int = int64("0+")
                epoch: int = int32("0+")

            partition: int = int32("0+")
            current_leader_epoch: int = int32("0+")
            snapshot_id: SnapshotId = struct(SnapshotId, "0+")
            position: int = int64("0+")
            replica_directory_id: UUID = uuid("1+", tag=0, ignorable=True)

        name: str = string("0+")
        partitions: list[PartitionSnapshot] = array(PartitionSnapshot, "0+")

    PartitionSnapshot: TypeAlias = TopicSnapshot.PartitionSnapshot
    SnapshotId: TypeAlias = PartitionSnapshot.SnapshotId

    cluster_id: str | None = string("0+", nullable="0+", default=None, tag=0)
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = array(TopicSnapshot, "0+")


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    """A piece, which may begin and end inside of a batch."""

    class TopicSnapshot(Struct):
        class PartitionSnapshot(Struct):
            class SnapshotId(Struct):
                end_offset: int = int64("0+")
                epoch: int = int32("0+")

            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("0+")
                leader_epoch: int = int32("0+")

            index: int = int32("0+")
            error_code: int = int16("0+")
            snapshot_id: SnapshotId = struct(SnapshotId, "0+")
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+", tag=0)
            size: int = int64("0+")
            position: int = int64("0+")
            unaligned_records: ByteString | None = record_set("0+")

        name: str = string("0+")
        partitions: list[PartitionSnapshot] = array(PartitionSnapshot, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionSnapshot: TypeAlias = TopicSnapshot.PartitionSnapshot
    SnapshotId: TypeAlias = PartitionSnapshot.SnapshotId
    LeaderIdAndEpoch: TypeAlias = PartitionSnapshot.LeaderIdAndEpoch

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    topics: list[TopicSnapshot] = array(TopicSnapshot, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
