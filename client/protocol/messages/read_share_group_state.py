"""ReadShareGroupState (API key 84): reads a share group's state of partitions (KIP-932); for partition leaders."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ReadShareGroupStateRequest(
    Request["ReadShareGroupStateResponse"], key=84, versions="0", flexible="0+", scope="broker"
):
    """Partitions and the leader's epoch."""

    class ReadStateData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = ReadStateData.PartitionData

    group_id: str = string("0+")
    topics: list[ReadStateData] = array(ReadStateData, "0+")


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    """State per partition."""

    class ReadStateResult(Struct):
        class PartitionResult(Struct):
            class StateBatch(Struct):
                """Records in one state: 0 available, 2 acknowledged, 4 archived."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                delivery_state: int = int8("0+")
                delivery_count: int = int16("0+")

            partition: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            state_epoch: int = int32("0+")
            start_offset: int = int64("0+")
            state_batches: list[StateBatch] = array(StateBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = ReadStateResult.PartitionResult
    StateBatch: TypeAlias = PartitionResult.StateBatch

    results: list[ReadStateResult] = array(ReadStateResult, "0+")
