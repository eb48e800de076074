"""TxnOffsetCommit (API key 28): stores a group's offsets as part of a transaction: they count when it commits.

    v1  throttles after the answer
    v2  leader epoch of the last record read
    v3  flexible; the member says who it is, so that one left behind is refused (KIP-447)
    v4  TRANSACTION_ABORTABLE (KIP-890)
    v5  adds the offsets to the transaction by itself: `versions` tells when it may be used

Goes to the group's coordinator, not to the transaction's. A commit from outside of the group carries generation -1 and
member id ""; brokers take such a commit even while the group has live members.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], key=28, versions="0-5", flexible="3+"):
    """Offsets per partition, and the transaction they belong to."""

    class TxnOffsetCommitRequestTopic(Struct):
        class TxnOffsetCommitRequestPartition(Struct):
            """`committed_offset` is the next one to read."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")

    TxnOffsetCommitRequestPartition: TypeAlias = TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    """An error per partition."""

    class TxnOffsetCommitResponseTopic(Struct):
        class TxnOffsetCommitResponsePartition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")

    TxnOffsetCommitResponsePartition: TypeAlias = TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")
