"""ElectLeaders (API key 43): has the controller elect partitions' leaders.

Type 0 elects the preferred leader, type 1 an unclean one if need be (KIP-460).

v1  election types; an error for the whole answer
v2  flexible
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class ElectLeadersRequest(Request["ElectLeadersResponse"], key=43, versions="0-2", flexible="2+"):
    """Null asks for all partitions."""

    class TopicPartitions(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """An error per partition."""

    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        topic: str = string("0+")
        partition_result: list[PartitionResult] = array(PartitionResult, "0+")

    PartitionResult: TypeAlias = ReplicaElectionResult.PartitionResult

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")
