"""DescribeQuorum (API key 55): tells how far voters and observers of the metadata log are (KIP-595, KIP-836).

v1  when each last fetched and last was level with the leader
v2  directory ids, where voters listen, error messages (KIP-853)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], key=55, versions="0-2", flexible="0+"):
    """Partition 0 of __cluster_metadata."""

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
