"""ShareAcknowledge (API key 79): acknowledges records that a member of a share group has acquired (KIP-932).

v1  the first stable one; v0 was an early access and is gone
v2  renews acquisition locks (KIP-1222)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, struct, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], key=79, versions="1-2", flexible="0+"):
    """Per partition: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (from v2)."""

    class AcknowledgeTopic(Struct):
        class AcknowledgePartition(Struct):
            class AcknowledgementBatch(Struct):
                """One type for the whole range, or one for each offset in it."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                acknowledge_types: list[int] = array(int8, "0+")

            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "0+")

    AcknowledgePartition: TypeAlias = AcknowledgeTopic.AcknowledgePartition
    AcknowledgementBatch: TypeAlias = AcknowledgePartition.AcknowledgementBatch

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "0+")


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
    """An error per partition."""

    class ShareAcknowledgeTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("0+")
                leader_epoch: int = int32("0+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    class NodeEndpoint(Struct):
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)

    PartitionData: TypeAlias = ShareAcknowledgeTopicResponse.PartitionData
    LeaderIdAndEpoch: TypeAlias = PartitionData.LeaderIdAndEpoch

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")
