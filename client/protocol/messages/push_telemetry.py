"""PushTelemetry (API key 72): hands over a client's metrics (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import boolean, byte_string, int8, int16, int32, uuid
from kseg.client.protocol.schema import Request, Response


class PushTelemetryRequest(Request["PushTelemetryResponse"], key=72, versions="0", flexible="0+"):
    """OTLP bytes, compressed as `compression_type` says; `terminating` marks the last ones."""

    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = byte_string("0+")


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    """Whether they were taken."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
