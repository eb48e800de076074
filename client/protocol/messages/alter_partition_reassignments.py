"""AlterPartitionReassignments (API key 45): moves partitions to other brokers (KIP-455); goes to the controller.

v1  whether the number of replicas may change (KIP-860)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], key=45, versions="0-1", flexible="0+"
):
    """The wished replicas per partition."""

    class ReassignableTopic(Struct):
        class ReassignablePartition(Struct):
            """Null replicas cancel a move under way."""

            partition_index: int = int32("0+")
            replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)

        name: str = string("0+")
        partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")

    ReassignablePartition: TypeAlias = ReassignableTopic.ReassignablePartition

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """An error per partition."""

    class ReassignableTopicResponse(Struct):
        class ReassignablePartitionResponse(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")

    ReassignablePartitionResponse: TypeAlias = ReassignableTopicResponse.ReassignablePartitionResponse

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")
