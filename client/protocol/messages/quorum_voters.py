"""The voters of the metadata quorum: who they are, and changing them (KIP-595, KIP-853)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import CONTROLLER, error_policy
from kseg.client.protocol.fields import (
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct

_QUORUM: Final = f"{CONTROLLER} NOT_LEADER_OR_FOLLOWER INCONSISTENT_CLUSTER_ID INVALID_REQUEST"


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], key=55, versions="0-2", flexible="0+"):
    """DescribeQuorum (API key 55): returns the progress of voters and observers of the metadata log (KIP-595, KIP-836).

    v1  when each last fetched and last was level with the leader
    v2  directory ids, where voters listen, error messages (KIP-853)

    Partition 0 of __cluster_metadata.
    """

    ROUTE = Route(RequestTarget.ANY)
    PERMISSIONS = permissions("DESCRIBE cluster")
    ERRORS = error_policy(f"{_QUORUM} BROKER_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION")

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData

    topics: list[TopicData] = array(TopicData, "0+")


class DescribeQuorumResponse(Response, answers=DescribeQuorumRequest):
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

    v1  may respond before the change is committed

    The voter and where it listens.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.DUPLICATE_VOTER,))
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


class AddRaftVoterResponse(Response, answers=AddRaftVoterRequest):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], key=81, versions="0", flexible="0+"):
    """RemoveRaftVoter (API key 81): removes a voter from the metadata quorum (KIP-853).

    The voter.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.VOTER_NOT_FOUND,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{_QUORUM} VOTER_NOT_FOUND")

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")


class RemoveRaftVoterResponse(Response, answers=RemoveRaftVoterRequest):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class UpdateRaftVoterRequest(
    Request["UpdateRaftVoterResponse"], key=82, versions="0", flexible="0+", scope="controller"
):
    """UpdateRaftVoter (API key 82): a voter reports its endpoints and features to the quorum's leader (KIP-853).

    The voter as it is now.
    """

    ROUTE = Route(RequestTarget.CONTROLLER)
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


class UpdateRaftVoterResponse(Response, answers=UpdateRaftVoterRequest):
    """Whether it worked; who leads otherwise."""

    class CurrentLeader(Struct):
        leader_id: int = int32("0+", default=-1)
        leader_epoch: int = int32("0+", default=-1)
        host: str = string("0+")
        port: int = int32("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    current_leader: CurrentLeader = struct(CurrentLeader, "0+", tag=0)
