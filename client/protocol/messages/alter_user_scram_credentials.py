"""AlterUserScramCredentials (API key 51): sets and removes users' SCRAM credentials (KIP-554).

Goes to the controller.
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, byte_string, int8, int16, int32, string
from kseg.client.protocol.schema import Request, Response, Struct


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], key=51, versions="0", flexible="0+"
):
    """What to remove and what to set. A password is salted on the client's side and never sent."""

    class ScramCredentialDeletion(Struct):
        name: str = string("0+")
        mechanism: int = int8("0+")

    class ScramCredentialUpsertion(Struct):
        """Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

        name: str = string("0+")
        mechanism: int = int8("0+")
        iterations: int = int32("0+")
        salt: bytes = byte_string("0+")
        salted_password: bytes = byte_string("0+")

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """An error per user."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")
