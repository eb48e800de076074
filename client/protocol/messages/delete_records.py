"""DeleteRecords (API key 21): moves a partition's log start forward; goes to the leader.

v1  throttles after the answer
v2  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], key=21, versions="0-2", flexible="2+"):
    """The first offset to keep per partition; -1 is the high watermark."""

    class DeleteRecordsTopic(Struct):
        class DeleteRecordsPartition(Struct):
            partition_index: int = int32("0+")
            offset: int = int64("0+")

        name: str = string("0+")
        partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")

    DeleteRecordsPartition: TypeAlias = DeleteRecordsTopic.DeleteRecordsPartition

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    """The new log start per partition."""

    class DeleteRecordsTopicResult(Struct):
        class DeleteRecordsPartitionResult(Struct):
            partition_index: int = int32("0+")
            low_watermark: int = int64("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")

    DeleteRecordsPartitionResult: TypeAlias = DeleteRecordsTopicResult.DeleteRecordsPartitionResult

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")
