"""ReadShareGroupStateSummary (API key 87): reads where a share group's state of partitions starts (KIP-932).

For group coordinators.

v1  how many deliveries are complete (KIP-1226)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ReadShareGroupStateSummaryRequest(
    Request["ReadShareGroupStateSummaryResponse"], key=87, versions="0-1", flexible="0+", scope="broker"
):
    """Partitions and the leader's epoch."""

    class ReadStateSummaryData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = ReadStateSummaryData.PartitionData

    group_id: str = string("0+")
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData, "0+")


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    """The start per partition."""

    class ReadStateSummaryResult(Struct):
        class PartitionResult(Struct):
            partition: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            state_epoch: int = int32("0+")
            leader_epoch: int = int32("0+")
            start_offset: int = int64("0+")
            delivery_complete_count: int = int32("1+", default=-1, ignorable=True)

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = ReadStateSummaryResult.PartitionResult

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult, "0+")
