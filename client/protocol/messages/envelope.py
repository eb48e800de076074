"""Envelope (API key 58): carries a client's request from a broker to the controller (KIP-590)."""

from __future__ import annotations

from kseg.client.protocol.fields import byte_string, int16
from kseg.client.protocol.schema import Request, Response


class EnvelopeRequest(Request["EnvelopeResponse"], key=58, versions="0", flexible="0+", scope="controller"):
    """The client's whole request, header included, and who it comes from."""

    request_data: bytes = byte_string("0+")
    request_principal: bytes | None = byte_string("0+", nullable="0+")
    client_host_address: bytes = byte_string("0+")


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    """The whole response to it."""

    response_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    error_code: int = int16("0+")
