"""RenewDelegationToken (API key 39): makes a delegation token live longer (KIP-48).

v1  throttles after the answer
v2  flexible
"""

from __future__ import annotations

from kseg.client.protocol.fields import byte_string, int16, int32, int64
from kseg.client.protocol.schema import Request, Response


class RenewDelegationTokenRequest(
    Request["RenewDelegationTokenResponse"], key=39, versions="0-2", flexible="2+", deprecated="0"
):
    """The token by its secret, and how many ms from now it is to live."""

    hmac: bytes = byte_string("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Response, key=39, versions="0-2", flexible="2+"):
    """When it expires now, in ms since 1970."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
