"""DescribeProducers (API key 61): tells who writes to partitions (KIP-664); goes to the leader.

So a transaction that hangs there is found.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeProducersRequest(Request["DescribeProducersResponse"], key=61, versions="0", flexible="0+"):
    """Partitions by topic."""

    class TopicRequest(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array(int32, "0+")

    topics: list[TopicRequest] = array(TopicRequest, "0+")


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """The producers of each partition."""

    class TopicResponse(Struct):
        class PartitionResponse(Struct):
            class ProducerState(Struct):
                """`current_txn_start_offset` is -1 where no transaction is open."""

                producer_id: int = int64("0+")
                producer_epoch: int = int32("0+")
                last_sequence: int = int32("0+", default=-1)
                last_timestamp: int = int64("0+", default=-1)
                coordinator_epoch: int = int32("0+")
                current_txn_start_offset: int = int64("0+", default=-1)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+", default=None)
            active_producers: list[ProducerState] = array(ProducerState, "0+")

        name: str = string("0+")
        partitions: list[PartitionResponse] = array(PartitionResponse, "0+")

    PartitionResponse: TypeAlias = TopicResponse.PartitionResponse
    ProducerState: TypeAlias = PartitionResponse.ProducerState

    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
