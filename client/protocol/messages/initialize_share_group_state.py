"""InitializeShareGroupState (API key 83): begins a share group's state of partitions (KIP-932).

For group coordinators.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], key=83, versions="0", flexible="0+", scope="broker"
):
    """Partitions and where to start."""

    class InitializeStateData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")
            state_epoch: int = int32("0+")
            start_offset: int = int64("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = InitializeStateData.PartitionData

    group_id: str = string("0+")
    topics: list[InitializeStateData] = array(InitializeStateData, "0+")


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    """An error per partition."""

    class InitializeStateResult(Struct):
        class PartitionResult(Struct):
            partition: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = InitializeStateResult.PartitionResult

    results: list[InitializeStateResult] = array(InitializeStateResult, "0+")
