"""AlterReplicaLogDirs (API key 34): moves replicas between a broker's log directories (KIP-113).

Goes to the broker that has them.

v1  throttles after the answer
v2  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], key=34, versions="0-2", flexible="2+", deprecated="0"
):
    """Per target directory, given by its absolute path: the partitions to move there."""

    class AlterReplicaLogDir(Struct):
        class AlterReplicaLogDirTopic(Struct):
            name: str = string("0+")
            partitions: list[int] = array(int32, "0+")

        path: str = string("0+")
        topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")

    AlterReplicaLogDirTopic: TypeAlias = AlterReplicaLogDir.AlterReplicaLogDirTopic

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirsResponse(Response, key=34, versions="0-2", flexible="2+"):
    """An error per partition."""

    class AlterReplicaLogDirTopicResult(Struct):
        class AlterReplicaLogDirPartitionResult(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        topic_name: str = string("0+")
        partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "0+")

    AlterReplicaLogDirPartitionResult: TypeAlias = AlterReplicaLogDirTopicResult.AlterReplicaLogDirPartitionResult

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")
