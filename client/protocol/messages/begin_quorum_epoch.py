"""BeginQuorumEpoch (API key 53): tells a controller that the sender leads the quorum now (KIP-595).

v1  flexible; voter keys, where the leader listens (KIP-853)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class BeginQuorumEpochRequest(
    Request["BeginQuorumEpochResponse"], key=53, versions="0-1", flexible="1+", scope="controller"
):
    """The leader and its epoch."""

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
