"""Metrics that clients push to brokers (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.error_policy import error_policy
from kseg.client.protocol.fields import array, boolean, byte_string, int8, int16, int32, string, uuid
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], key=71, versions="0", flexible="0+"
):
    """GetTelemetrySubscriptions (API key 71): asks which of a client's metrics the cluster wants (KIP-714).

    The client instance id: zero in the first request, then the one that the broker assigned.
    """

    ROUTE = Route(RequestTarget.ANY)
    ERRORS = error_policy("INVALID_REQUEST UNSUPPORTED_VERSION THROTTLING_QUOTA_EXCEEDED")

    client_instance_id: UUID = uuid("0+")


class GetTelemetrySubscriptionsResponse(Response, answers=GetTelemetrySubscriptionsRequest):
    """The id to use, the metrics by name prefix ("" for all), the interval in ms, and the compression types."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array(int8, "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array(string, "0+")


class PushTelemetryRequest(Request["PushTelemetryResponse"], key=72, versions="0", flexible="0+"):
    """PushTelemetry (API key 72): sends a client's metrics (KIP-714).

    OTLP bytes, compressed as `compression_type` says; `terminating` marks the last ones.
    """

    ROUTE = Route(RequestTarget.SAME_CONNECTION, RetrySafety.UNSAFE)
    ERRORS = error_policy(
        "INVALID_REQUEST INVALID_RECORD UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE "
        "UNSUPPORTED_COMPRESSION_TYPE THROTTLING_QUOTA_EXCEEDED",
    )

    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = byte_string("0+")


class PushTelemetryResponse(Response, answers=PushTelemetryRequest):
    """Whether they were accepted."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
