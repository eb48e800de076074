"""WriteShareGroupState (API key 85): writes a share group's state of partitions (KIP-932); for partition leaders.

v1  how many deliveries are complete (KIP-1226)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class WriteShareGroupStateRequest(
    Request["WriteShareGroupStateResponse"], key=85, versions="0-1", flexible="0+", scope="broker"
):
    """State per partition."""

    class WriteStateData(Struct):
        class PartitionData(Struct):
            class StateBatch(Struct):
                """Records in one state: 0 available, 2 acknowledged, 4 archived."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                delivery_state: int = int8("0+")
                delivery_count: int = int16("0+")

            partition: int = int32("0+")
            state_epoch: int = int32("0+")
            leader_epoch: int = int32("0+")
            start_offset: int = int64("0+")
            delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
            state_batches: list[StateBatch] = array(StateBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = WriteStateData.PartitionData
    StateBatch: TypeAlias = PartitionData.StateBatch

    group_id: str = string("0+")
    topics: list[WriteStateData] = array(WriteStateData, "0+")


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    """An error per partition."""

    class WriteStateResult(Struct):
        class PartitionResult(Struct):
            partition: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = WriteStateResult.PartitionResult

    results: list[WriteStateResult] = array(WriteStateResult, "0+")
