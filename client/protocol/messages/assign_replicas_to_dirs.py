"""AssignReplicasToDirs (API key 73): a broker tells where its replicas lie on its disks (KIP-858)."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, int16, int32, int64, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"], key=73, versions="0", flexible="0+", scope="controller"
):
    """Partitions per directory."""

    class DirectoryData(Struct):
        class TopicData(Struct):
            class PartitionData(Struct):
                partition_index: int = int32("0+")

            topic_id: UUID = uuid("0+")
            partitions: list[PartitionData] = array(PartitionData, "0+")

        id: UUID = uuid("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = DirectoryData.TopicData
    PartitionData: TypeAlias = TopicData.PartitionData

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    directories: list[DirectoryData] = array(DirectoryData, "0+")


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    """An error per partition."""

    class DirectoryData(Struct):
        class TopicData(Struct):
            class PartitionData(Struct):
                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            topic_id: UUID = uuid("0+")
            partitions: list[PartitionData] = array(PartitionData, "0+")

        id: UUID = uuid("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = DirectoryData.TopicData
    PartitionData: TypeAlias = TopicData.PartitionData

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    directories: list[DirectoryData] = array(DirectoryData, "0+")
