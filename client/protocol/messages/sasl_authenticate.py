"""SaslAuthenticate (API key 36): carries a SASL exchange, one step a request (KIP-152).

v1  the answer tells how long the session lives; the client authenticates again before (KIP-368)
v2  flexible
"""

from __future__ import annotations

from kseg.client.protocol.fields import byte_string, int16, int64, string
from kseg.client.protocol.schema import Request, Response


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], key=36, versions="0-2", flexible="2+"):
    """The mechanism's own bytes; never log them."""

    auth_bytes: bytes = byte_string("0+")


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    """The mechanism's own bytes. `session_lifetime_ms` is 0 where the session has no end."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = byte_string("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
