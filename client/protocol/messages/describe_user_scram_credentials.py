"""DescribeUserScramCredentials (API key 50): tells users' SCRAM mechanisms (KIP-554).

The credentials themselves are never told.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], key=50, versions="0", flexible="0+"
):
    """Null or an empty list asks for all users."""

    class UserName(Struct):
        name: str = string("0+")

    users: list[UserName] | None = array(UserName, "0+", nullable="0+")


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """An error or the mechanisms per user: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    class DescribeUserScramCredentialsResult(Struct):
        class CredentialInfo(Struct):
            mechanism: int = int8("0+")
            iterations: int = int32("0+")

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")

    CredentialInfo: TypeAlias = DescribeUserScramCredentialsResult.CredentialInfo

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")
