"""DescribeLogDirs (API key 35): where partitions lie on one broker's disks, and how large they are.

v1  the oldest version that 4.0 takes; throttles after the answer
v2  flexible
v3  an error for the whole answer
v4  size and free space of the volume (KIP-827)
v5  cordoned directories (KIP-1066)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], key=35, versions="0-5", flexible="2+", deprecated="0"):
    """Null asks for all partitions."""

    class DescribableLogDirTopic(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsResponse(Response, key=35, versions="0-5", flexible="2+"):
    """One result a log directory."""

    class DescribeLogDirsResult(Struct):
        """`total_bytes` and `usable_bytes` are -1 where they are not known."""

        class DescribeLogDirsTopic(Struct):
            class DescribeLogDirsPartition(Struct):
                """Sizes in bytes; `offset_lag` behind the high watermark, or behind the log it is to replace."""

                partition_index: int = int32("0+")
                partition_size: int = int64("0+")
                offset_lag: int = int64("0+")
                is_future_key: bool = boolean("0+")

            name: str = string("0+")
            partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")

        error_code: int = int16("0+")
        log_dir: str = string("0+")
        topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
        total_bytes: int = int64("4+", default=-1, ignorable=True)
        usable_bytes: int = int64("4+", default=-1, ignorable=True)
        is_cordoned: bool = boolean("5+", ignorable=True)

    DescribeLogDirsPartition: TypeAlias = DescribeLogDirsResult.DescribeLogDirsTopic.DescribeLogDirsPartition
    DescribeLogDirsTopic: TypeAlias = DescribeLogDirsResult.DescribeLogDirsTopic

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
