"""AddOffsetsToTxn (API key 25): tells the transaction coordinator that a transaction commits a group's offsets.

Under the second transaction protocol TxnOffsetCommit says so by itself (KIP-890).

    v1  throttles after the answer
    v2  PRODUCER_FENCED
    v3  flexible
    v4  TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+"):
    """The transaction and the group."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
