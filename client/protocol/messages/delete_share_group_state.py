"""DeleteShareGroupState (API key 86): deletes a share group's state of partitions (KIP-932); for group coordinators."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class DeleteShareGroupStateRequest(
    Request["DeleteShareGroupStateResponse"], key=86, versions="0", flexible="0+", scope="broker"
):
    """Partitions."""

    class DeleteStateData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = DeleteStateData.PartitionData

    group_id: str = string("0+")
    topics: list[DeleteStateData] = array(DeleteStateData, "0+")


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    """An error per partition."""

    class DeleteStateResult(Struct):
        class PartitionResult(Struct):
            partition: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = DeleteStateResult.PartitionResult

    results: list[DeleteStateResult] = array(DeleteStateResult, "0+")
