"""EndTxn (API key 26): commits or aborts a transaction.

The answer comes when the decision stands in the transaction log; markers follow.

v1  throttles after the answer
v2  PRODUCER_FENCED
v3  flexible
v4  TRANSACTION_ABORTABLE (KIP-890)
v5  every transaction has an epoch of its own, told in the answer: `versions` tells when it may be used
"""

from __future__ import annotations

from kseg.client.protocol.fields import boolean, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response


class EndTxnRequest(Request["EndTxnResponse"], key=26, versions="0-5", flexible="3+"):
    """The transaction, and how it ends."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    """From v5: the producer id and epoch of the next transaction, -1 where none are told."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
