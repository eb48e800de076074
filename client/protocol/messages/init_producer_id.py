"""InitProducerId (API key 22): a producer id and epoch to write with.

For a transactional id: the same producer id as before with a higher epoch, which fences whoever used it, after an open
transaction has been ended.

    v1  throttles after the answer
    v2  flexible
    v3  the producer tells its present id and epoch, to go on after an error (KIP-360)
    v4  PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
    v5  TRANSACTION_ABORTABLE (KIP-890)

Version 6 (two-phase commit, KIP-939) is unstable in 4.3 and left out, with the fields that it alone has.
"""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response


class InitProducerIdRequest(Request["InitProducerIdResponse"], key=22, versions="0-5", flexible="2+"):
    """Who asks; a null transactional id asks for a plain idempotent producer."""

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response, key=22, versions="0-5", flexible="2+"):
    """The id and epoch to write with."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
