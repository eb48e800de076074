"""BrokerRegistration (API key 62): a broker registers with the controller (KIP-500).

v1  brokers that migrate from ZooKeeper (KIP-866)
v2  log directories (KIP-858)
v3  the epoch before a clean shutdown (KIP-966)
v4  features whose lowest version is 0
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class BrokerRegistrationRequest(
    Request["BrokerRegistrationResponse"], key=62, versions="0-4", flexible="0+", scope="controller"
):
    """Who the broker is and what it can do."""

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")
        security_protocol: int = int16("0+")

    class Feature(Struct):
        name: str = string("0+")
        min_supported_version: int = int16("0+")
        max_supported_version: int = int16("0+")

    broker_id: int = int32("0+")
    cluster_id: str = string("0+")
    incarnation_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    features: list[Feature] = array(Feature, "0+")
    rack: str | None = string("0+", nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[UUID] = array(uuid, "2+", ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    """The broker's epoch."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)
