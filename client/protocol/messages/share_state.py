"""The state of share groups, which share coordinators keep for group coordinators and leaders (KIP-932)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], key=83, versions="0", flexible="0+", scope="broker"
):
    """InitializeShareGroupState (API key 83): begins a share group's state of partitions (KIP-932).

    For group coordinators.

    Partitions and where to start.
    """

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


class InitializeShareGroupStateResponse(Response, answers=InitializeShareGroupStateRequest):
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


class ReadShareGroupStateRequest(
    Request["ReadShareGroupStateResponse"], key=84, versions="0", flexible="0+", scope="broker"
):
    """ReadShareGroupState (API key 84): reads a share group's state of partitions (KIP-932); for partition leaders.

    Partitions and the leader's epoch.
    """

    class ReadStateData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = ReadStateData.PartitionData

    group_id: str = string("0+")
    topics: list[ReadStateData] = array(ReadStateData, "0+")


class ReadShareGroupStateResponse(Response, answers=ReadShareGroupStateRequest):
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


class WriteShareGroupStateRequest(
    Request["WriteShareGroupStateResponse"], key=85, versions="0-1", flexible="0+", scope="broker"
):
    """WriteShareGroupState (API key 85): writes a share group's state of partitions (KIP-932); for partition leaders.

    v1  how many deliveries are complete (KIP-1226)

    State per partition.
    """

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


class WriteShareGroupStateResponse(Response, answers=WriteShareGroupStateRequest):
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


class DeleteShareGroupStateRequest(
    Request["DeleteShareGroupStateResponse"], key=86, versions="0", flexible="0+", scope="broker"
):
    """DeleteShareGroupState (API key 86): deletes a share group's state of partitions (KIP-932); for group
    coordinators.

    Partitions.
    """

    class DeleteStateData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = DeleteStateData.PartitionData

    group_id: str = string("0+")
    topics: list[DeleteStateData] = array(DeleteStateData, "0+")


class DeleteShareGroupStateResponse(Response, answers=DeleteShareGroupStateRequest):
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


class ReadShareGroupStateSummaryRequest(
    Request["ReadShareGroupStateSummaryResponse"], key=87, versions="0-1", flexible="0+", scope="broker"
):
    """ReadShareGroupStateSummary (API key 87): reads where a share group's state of partitions starts (KIP-932).

    For group coordinators.

    v1  how many deliveries are complete (KIP-1226)

    Partitions and the leader's epoch.
    """

    class ReadStateSummaryData(Struct):
        class PartitionData(Struct):
            partition: int = int32("0+")
            leader_epoch: int = int32("0+")

        topic_id: UUID = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = ReadStateSummaryData.PartitionData

    group_id: str = string("0+")
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData, "0+")


class ReadShareGroupStateSummaryResponse(Response, answers=ReadShareGroupStateSummaryRequest):
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
