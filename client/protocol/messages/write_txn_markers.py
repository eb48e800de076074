"""WriteTxnMarkers (API key 27): writes commit or abort markers into partitions.

Sent by transaction coordinators; an administrator ends a hanging transaction with it (KIP-664).

v1  flexible
v2  the transaction's version, for a stricter check of epochs (KIP-1228)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], key=27, versions="0-2", flexible="1+", deprecated="0"):
    """Markers, each for one producer's partitions; `transaction_result` is true for a commit."""

    class WritableTxnMarker(Struct):
        """`coordinator_epoch` -1 for an administrator's."""

        class WritableTxnMarkerTopic(Struct):
            name: str = string("0+")
            partition_indexes: list[int] = array(int32, "0+")

        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")
        topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", ignorable=True)

    WritableTxnMarkerTopic: TypeAlias = WritableTxnMarker.WritableTxnMarkerTopic

    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WriteTxnMarkersResponse(Response, key=27, versions="0-2", flexible="1+"):
    """An error per producer and partition."""

    class WritableTxnMarkerResult(Struct):
        class WritableTxnMarkerTopicResult(Struct):
            class WritableTxnMarkerPartitionResult(Struct):
                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            name: str = string("0+")
            partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")

        producer_id: int = int64("0+")
        topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")

    WritableTxnMarkerTopicResult: TypeAlias = WritableTxnMarkerResult.WritableTxnMarkerTopicResult
    WritableTxnMarkerPartitionResult: TypeAlias = WritableTxnMarkerTopicResult.WritableTxnMarkerPartitionResult

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
