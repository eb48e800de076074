"""The metadata quorum of KRaft controllers: elections, snapshots and voters (KIP-595, KIP-630, KIP-853)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import error_policy
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
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RetrySafety, Route, Target
from kseg.client.protocol.schema import Request, Response, Struct
from kseg.client.protocol.shared_errors import CONTROLLER

_QUORUM: Final = f"{CONTROLLER} NOT_LEADER_OR_FOLLOWER INCONSISTENT_CLUSTER_ID INVALID_REQUEST"


class VoteRequest(Request["VoteResponse"], key=52, versions="0-2", flexible="0+", scope="controller"):
    """Vote (API key 52): asks a controller for its vote, to become the quorum's leader (KIP-595).

    v1  voter keys: directory ids, where the leader listens (KIP-853)
    v2  asks before the epoch is raised (KIP-996)

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


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
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
    """BeginQuorumEpoch (API key 53): tells a controller that the sender leads the quorum now (KIP-595).

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


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    """Who leads in the receiver's eyes."""

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
    """EndQuorumEpoch (API key 54): tells controllers that the leader of the quorum steps down (KIP-595).

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


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    """Who leads in the receiver's eyes."""

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


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], key=55, versions="0-2", flexible="0+"):
    """DescribeQuorum (API key 55): tells how far voters and observers of the metadata log are (KIP-595, KIP-836).

    v1  when each last fetched and last was level with the leader
    v2  directory ids, where voters listen, error messages (KIP-853)

    Partition 0 of __cluster_metadata.
    """

    ROUTE = Route(Target.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy(f"{_QUORUM} BROKER_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION")

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData

    topics: list[TopicData] = array(TopicData, "0+")


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """Leader, voters, observers."""

    class TopicData(Struct):
        class PartitionData(Struct):
            class ReplicaState(Struct):
                """Times are ms since 1970, -1 where not known."""

                replica_id: int = int32("0+")
                replica_directory_id: UUID = uuid("2+")
                log_end_offset: int = int64("0+")
                last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
                last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("2+", nullable="2+", ignorable=True)
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            high_watermark: int = int64("0+")
            current_voters: list[ReplicaState] = array(ReplicaState, "0+")
            observers: list[ReplicaState] = array(ReplicaState, "0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class Node(Struct):
        class Listener(Struct):
            name: str = string("2+")
            host: str = string("2+")
            port: int = uint16("2+")

        node_id: int = int32("2+")
        listeners: list[Listener] = array(Listener, "2+")

    PartitionData: TypeAlias = TopicData.PartitionData
    ReplicaState: TypeAlias = PartitionData.ReplicaState
    Listener: TypeAlias = Node.Listener

    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+")
    nodes: list[Node] = array(Node, "2+")


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], key=80, versions="0-1", flexible="0+"):
    """AddRaftVoter (API key 80): adds a voter to the metadata quorum (KIP-853).

    v1  may answer before the change is committed

    The voter and where it listens.
    """

    ROUTE = Route(Target.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.DUPLICATE_VOTER,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{_QUORUM} DUPLICATE_VOTER")

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], key=81, versions="0", flexible="0+"):
    """RemoveRaftVoter (API key 81): removes a voter from the metadata quorum (KIP-853).

    The voter.
    """

    ROUTE = Route(Target.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.VOTER_NOT_FOUND,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{_QUORUM} VOTER_NOT_FOUND")

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class UpdateRaftVoterRequest(
    Request["UpdateRaftVoterResponse"], key=82, versions="0", flexible="0+", scope="controller"
):
    """UpdateRaftVoter (API key 82): a voter tells the quorum's leader where it listens and what it can do (KIP-853).

    The voter as it is now.
    """

    ROUTE = Route(Target.CONTROLLER)
    PERMISSIONS = permissions("", otherwise="CLUSTER_ACTION on cluster")
    ERRORS = error_policy(f"{_QUORUM} VOTER_NOT_FOUND")

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    current_leader_epoch: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+")


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """Whether it worked; who leads otherwise."""

    class CurrentLeader(Struct):
        leader_id: int = int32("0+", default=-1)
        leader_epoch: int = int32("0+", default=-1)
        host: str = string("0+")
        port: int = int32("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    current_leader: CurrentLeader = struct(CurrentLeader, "0+", tag=0)
