"""CreateDelegationToken (API key 38): makes a delegation token for the principal that asks (KIP-48).

v1  throttles after the answer
v2  flexible
v3  an owner other than the one who asks (KIP-373)
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, byte_string, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class CreateDelegationTokenRequest(
    Request["CreateDelegationTokenResponse"], key=38, versions="0-3", flexible="2+", deprecated="0"
):
    """The owner (null: who asks), who may renew it, and its longest life in ms (-1: the broker's own limit)."""

    class CreatableRenewers(Struct):
        """A principal that may renew the token."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(Response, key=38, versions="0-3", flexible="2+"):
    """The token; `hmac` is its secret. Times are ms since 1970."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = byte_string("0+")
    throttle_time_ms: int = int32("0+")
