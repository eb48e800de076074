"""Client telemetry (KIP-714): the cluster says which metrics it wants of a client, and the client pushes them.

    telemetry_subscription   GetTelemetrySubscriptions (71)   any broker; a zero id asks for an id of one's own
    push_telemetry           PushTelemetry (72)               any broker; the payload is OpenTelemetry's MetricsData

Brokers offer both only where a metrics reporter takes client telemetry. A broker wants pushes no more often than the
subscription's interval, and answers THROTTLING_QUOTA_EXCEEDED to those that come sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import NO_ID
from kseg.client.errors import error_from_code
from kseg.client.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)


@dataclass(frozen=True, slots=True)
class TelemetrySubscription:
    """The cluster's subscription. `metrics`: prefixes of names, empty for nothing, ("*",) for all.

    `compressions` are codec numbers as in record batches, best first; `delta`: differences rather than totals.
    """

    client_instance_id: UUID
    subscription_id: int
    compressions: tuple[int, ...]
    push_interval_ms: int
    max_bytes: int
    delta: bool
    metrics: tuple[str, ...]


def telemetry_subscription(cluster: Cluster, client_instance_id: UUID = NO_ID) -> TelemetrySubscription:
    """Asks which metrics the cluster wants of this client; the first answer has an id for it."""

    def check(response: GetTelemetrySubscriptionsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "GetTelemetrySubscriptions")

    request = GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id)
    response = cluster.send(request, check=check)
    return TelemetrySubscription(
        client_instance_id=response.client_instance_id if client_instance_id == NO_ID else client_instance_id,
        subscription_id=response.subscription_id,
        compressions=tuple(response.accepted_compression_types),
        push_interval_ms=response.push_interval_ms,
        max_bytes=response.telemetry_max_bytes,
        delta=response.delta_temporality,
        metrics=tuple(response.requested_metrics),
    )


def push_telemetry(
    cluster: Cluster,
    subscription: TelemetrySubscription,
    metrics: bytes,
    *,
    compression: int = 0,
    terminating: bool = False,
) -> None:
    """Push serialized metrics; `terminating` for the last time. One that comes too soon waits until it may.

    UNKNOWN_SUBSCRIPTION_ID: the cluster wants something else now, ask for the new subscription.
    """

    def check(response: PushTelemetryResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "PushTelemetry")

    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        terminating=terminating,
        compression_type=compression,
        metrics=metrics,
    )
    cluster.send(request, check=check)
