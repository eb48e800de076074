"""GetTelemetrySubscriptions (API key 71): asks which of a client's metrics the cluster wants (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, string, uuid
from kseg.client.protocol.schema import Request, Response


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], key=71, versions="0", flexible="0+"
):
    """All zero on first contact; then the id that the broker gave."""

    client_instance_id: UUID = uuid("0+")


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    """The id to use, which metrics by name prefix ("" for all), how often in ms, and compressed how."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: UUID = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array(int8, "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array(string, "0+")
