"""ControllerRegistration (API key 70): a controller registers with the active one (KIP-919)."""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class ControllerRegistrationRequest(
    Request["ControllerRegistrationResponse"], key=70, versions="0", flexible="0+", scope="controller"
):
    """Where the controller listens and what it can do."""

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")
        security_protocol: int = int16("0+")

    class Feature(Struct):
        name: str = string("0+")
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    controller_id: int = int32("0+")
    incarnation_id: UUID = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    listeners: list[Listener] = array(Listener, "0+")
    features: list[Feature] = array(Feature, "0+")


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
