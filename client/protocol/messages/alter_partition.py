"""AlterPartition (API key 56): a leader's wish to change its in-sync replicas (KIP-497).

v1  recovery state (KIP-704)
v2  topics by id (KIP-841)
v3  in-sync replicas with their broker epochs (KIP-903)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class AlterPartitionRequest(
    Request["AlterPartitionResponse"], key=56, versions="0-3", flexible="0+", scope="controller", deprecated="0-1"
):
    """The wished state per partition."""

    class TopicData(Struct):
        class PartitionData(Struct):
            class BrokerState(Struct):
                broker_id: int = int32("3+")
                broker_epoch: int = int64("3+", default=-1)

            partition_index: int = int32("0+")
            leader_epoch: int = int32("0+")
            new_isr: list[int] = array(int32, "0-2")
            new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
            leader_recovery_state: int = int8("1+")
            partition_epoch: int = int32("0+")

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData
    BrokerState: TypeAlias = PartitionData.BrokerState

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+")


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    """The state that counts now."""

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            isr: list[int] = array(int32, "0+")
            leader_recovery_state: int = int8("1+", ignorable=True)
            partition_epoch: int = int32("0+")

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")
