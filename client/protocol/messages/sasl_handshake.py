"""SaslHandshake (API key 17): agrees on a SASL mechanism; the authentication itself follows.

v0  what follows are bare frames: a size and the mechanism's own bytes, with no header around them
v1  what follows is SaslAuthenticate (KIP-152)

There is no flexible version: old clients choose badly between versions of this API, so it stays as it is.
"""

from __future__ import annotations

from kseg.client.protocol.fields import array, int16, string
from kseg.client.protocol.schema import Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], key=17, versions="0-1"):
    """The mechanism that the client has chosen, such as SCRAM-SHA-512."""

    mechanism: str = string("0+")


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    """The mechanisms that the broker offers, also with UNSUPPORTED_SASL_MECHANISM."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
