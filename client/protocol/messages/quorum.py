"""The metadata quorum of KRaft controllers among themselves: elections and snapshots (KIP-595, KIP-630)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import (
    ByteString,
    array,
    boolean,
    int16,
    int32,
    int64,
    record_set,
    string,
    struct,
    uint16,
    uuid,
)
from kseg.client.protocol.schema import Request, Response, Struct


class VoteRequest(Request["VoteResponse"], key=52, versions="0-2", flexible="0+", scope="controller"):
    """Vote (API key 52): asks a controller for its vote, to become the quorum's leader (KIP-595).

    v1  voter keys: directory ids, where the leader listens (KIP-853)
    v2  pre-vote: asks before the epoch is raised (KIP-996)

    Who wants to lead, in which epoch, with how long a log.
    """

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            replica_epoch: int = int32("0+")
            replica_id: int = int32("0+")
            replica_directory_id: UUID = uuid("1+", ignorable=True)
            voter_directory_id: UUID = uuid("1+", ignorable=True)
            last_offset_epoch: int = int32("0+")
            last_offset: int = int64("0+")
            pre_vote: bool = boolean("2+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData

    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+")


class VoteResponse(Response, answers=VoteRequest):
    """Whether the vote is given; who leads otherwise."""

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            vote_granted: bool = boolean("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionData: TypeAlias = TopicData.PartitionData

    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class BeginQuorumEpochRequest(
    Request["BeginQuorumEpochResponse"], key=53, versions="0-1", flexible="1+", scope="controller"
):
    """BeginQuorumEpoch (API key 53): informs a controller that the sender leads the quorum now (KIP-595).

    v1  flexible; voter keys, where the leader listens (KIP-853)

    The leader and its epoch.
    """

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            voter_directory_id: UUID = uuid("1+", ignorable=True)
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class LeaderEndpoint(Struct):
        name: str = string("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionData: TypeAlias = TopicData.PartitionData

    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+")
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class BeginQuorumEpochResponse(Response, answers=BeginQuorumEpochRequest):
    """The leader that the receiver knows."""

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionData: TypeAlias = TopicData.PartitionData

    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class EndQuorumEpochRequest(
    Request["EndQuorumEpochResponse"], key=54, versions="0-1", flexible="1+", scope="controller"
):
    """EndQuorumEpoch (API key 54): informs controllers that the leader of the quorum resigns (KIP-595).

    v1  flexible; successors with their directory ids, where the leader listens (KIP-853)

    The epoch that ends, and who should lead next, best first.
    """

    class TopicData(Struct):
        class PartitionData(Struct):
            class ReplicaInfo(Struct):
                candidate_id: int = int32("1+")
                candidate_directory_id: UUID = uuid("1+")

            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            preferred_successors: list[int] = array(int32, "0", ignorable=True)
            preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", ignorable=True)

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class LeaderEndpoint(Struct):
        name: str = string("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionData: TypeAlias = TopicData.PartitionData
    ReplicaInfo: TypeAlias = PartitionData.ReplicaInfo

    cluster_id: str | None = string("0+", nullable="0+", default=None)
    topics: list[TopicData] = array(TopicData, "0+")
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class EndQuorumEpochResponse(Response, answers=EndQuorumEpochRequest):
    """The leader that the receiver knows."""

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("1+")
        host: str = string("1+")
        port: int = uint16("1+")

    PartitionData: TypeAlias = TopicData.PartitionData

    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


class FetchSnapshotRequest(Request["FetchSnapshotResponse"], key=59, versions="0-1", flexible="0+", scope="controller"):
    """FetchSnapshot (API key 59): reads a snapshot of the metadata log, piece by piece (KIP-630).

    v1  directory id of the reader (KIP-853)

    Snapshot and position.
    """

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


class FetchSnapshotResponse(Response, answers=FetchSnapshotRequest):
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
