"""ListOffsets (API key 2): offsets by time.

    v0   no offsets by time, but where segments start: at most `max_num_offsets` of them, newest first
    v1   one offset a partition: the first at or after a time; the oldest version that 4.0 takes
    v2   isolation level: under read_committed the latest offset is the last stable one
    v3   throttles after the answer
    v4   leader epochs, asked for and told (KIP-320)
    v5   OFFSET_NOT_AVAILABLE right after a leader change (KIP-207)
    v6   flexible
    v7   time -3: the record with the largest timestamp (KIP-734)
    v8   time -4: the earliest offset on the broker's own disk (KIP-405)
    v9   time -5: the latest offset in tiered storage (KIP-1005)
    v10  a timeout, for answers that come from tiered storage (KIP-1075)
    v11  time -6: the earliest offset not yet in tiered storage (KIP-1023)

Time -1 is the latest offset, -2 the earliest. Offset -1 in the answer: no record at or after that time.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int8, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class ListOffsetsRequest(Request["ListOffsetsResponse"], key=2, versions="0-11", flexible="6+", deprecated="0"):
    """A time (or one of the special values) per partition."""

    class ListOffsetsTopic(Struct):
        class ListOffsetsPartition(Struct):
            partition_index: int = int32("0+")
            current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
            timestamp: int = int64("0+")
            max_num_offsets: int = int32("0", default=1)

        name: str = string("0+")
        partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")

    ListOffsetsPartition: TypeAlias = ListOffsetsTopic.ListOffsetsPartition

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsResponse(Response, key=2, versions="0-11", flexible="6+"):
    """An offset per partition, with the timestamp found there."""

    class ListOffsetsTopicResponse(Struct):
        class ListOffsetsPartitionResponse(Struct):
            """For the special times `timestamp` is -1, except for -3."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            old_style_offsets: list[int] = array(int64, "0")
            timestamp: int = int64("1+", default=-1)
            offset: int = int64("1+", default=-1)
            leader_epoch: int = int32("4+", default=-1)

        name: str = string("0+")
        partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")

    ListOffsetsPartitionResponse: TypeAlias = ListOffsetsTopicResponse.ListOffsetsPartitionResponse

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")
