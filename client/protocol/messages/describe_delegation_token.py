"""DescribeDelegationToken (API key 41): lists delegation tokens (KIP-48).

v1  throttles after the answer
v2  flexible
v3  who asked for each (KIP-373)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, byte_string, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"], key=41, versions="0-3", flexible="2+", deprecated="0"
):
    """Null asks for all owners' tokens that the asker may see."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, "0+", nullable="0+")


class DescribeDelegationTokenResponse(Response, key=41, versions="0-3", flexible="2+"):
    """The tokens with their secrets."""

    class DescribedDelegationToken(Struct):
        class DescribedDelegationTokenRenewer(Struct):
            principal_type: str = string("0+")
            principal_name: str = string("0+")

        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = byte_string("0+")
        renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")

    DescribedDelegationTokenRenewer: TypeAlias = DescribedDelegationToken.DescribedDelegationTokenRenewer

    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
