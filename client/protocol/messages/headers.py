"""What stands before a message's body: see `api` for which version goes with what."""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, string
from kseg.client.protocol.schema import Message


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """Version 2 goes before flexible bodies, version 1 before all others, version 0 before ControlledShutdown v0 alone.

    `client_id` keeps its two-byte length in both: a broker must be able to read the header of an ApiVersions request
    that is newer than itself.
    """

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible="none", ignorable=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """Version 1 goes before flexible bodies, version 0 before all others and before every ApiVersions response."""

    correlation_id: int = int32("0+")
