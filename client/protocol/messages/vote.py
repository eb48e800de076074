"""Vote (API key 52): asks a controller for its vote, to become the quorum's leader (KIP-595).

v1  voter keys: directory ids, where the leader listens (KIP-853)
v2  asks before the epoch is raised (KIP-996)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class VoteRequest(Request["VoteResponse"], key=52, versions="0-2", flexible="0+", scope="controller"):
    """Who wants to lead, in which epoch, with how long a log."""

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
