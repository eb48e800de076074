"""UnregisterBroker (API key 64): removes a broker's registration; the broker must be gone (KIP-500)."""

from __future__ import annotations

from kseg.client.protocol.fields import int16, int32, string
from kseg.client.protocol.schema import Request, Response


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], key=64, versions="0", flexible="0+"):
    """The broker."""

    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
