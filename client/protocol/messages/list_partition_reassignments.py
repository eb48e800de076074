"""ListPartitionReassignments (API key 46): lists moves of partitions under way (KIP-455).

Goes to the controller.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], key=46, versions="0", flexible="0+"
):
    """Null asks for all topics."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array(int32, "0+")

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """The moves."""

    class OngoingTopicReassignment(Struct):
        class OngoingPartitionReassignment(Struct):
            """All replicas at present, and those of them that come and go."""

            partition_index: int = int32("0+")
            replicas: list[int] = array(int32, "0+")
            adding_replicas: list[int] = array(int32, "0+")
            removing_replicas: list[int] = array(int32, "0+")

        name: str = string("0+")
        partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")

    OngoingPartitionReassignment: TypeAlias = OngoingTopicReassignment.OngoingPartitionReassignment

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")
