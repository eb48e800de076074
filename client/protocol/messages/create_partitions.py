"""CreatePartitions (API key 37): adds partitions to topics (KIP-195); goes to the controller.

v1  throttles after the answer
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], key=37, versions="0-3", flexible="2+"):
    """The wished number of partitions of each topic, old ones included."""

    class CreatePartitionsTopic(Struct):
        """Null assignments leave the placement to the controller."""

        class CreatePartitionsAssignment(Struct):
            """Replicas of one new partition; the first is the preferred leader."""

            broker_ids: list[int] = array(int32, "0+")

        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")

    CreatePartitionsAssignment: TypeAlias = CreatePartitionsTopic.CreatePartitionsAssignment

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    """An error per topic."""

    class CreatePartitionsTopicResult(Struct):
        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
