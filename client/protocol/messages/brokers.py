"""The life of brokers and controllers: registration, heartbeats, shutdown, and requests on behalf of others."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import CONTROLLER, error_policy
from kseg.client.protocol.fields import array, boolean, byte_string, int16, int32, int64, string, uint16, uuid
from kseg.client.protocol.permissions import permissions
from kseg.client.protocol.routing import RequestTarget, RetrySafety, Route
from kseg.client.protocol.schema import Request, Response, Struct


class BrokerRegistrationRequest(
    Request["BrokerRegistrationResponse"], key=62, versions="0-4", flexible="0+", scope="controller", client_waits="0+"
):
    """BrokerRegistration (API key 62): a broker registers with the controller (KIP-500).

    v1  brokers that migrate from ZooKeeper (KIP-866)
    v2  log directories (KIP-858)
    v3  the epoch before a clean shutdown (KIP-966)
    v4  features whose lowest version is 0

    Who the broker is and what it can do.
    """

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


class BrokerRegistrationResponse(Response, answers=BrokerRegistrationRequest):
    """The broker's epoch."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)


class BrokerHeartbeatRequest(
    Request["BrokerHeartbeatResponse"], key=63, versions="0-2", flexible="0+", scope="controller", client_waits="0+"
):
    """BrokerHeartbeat (API key 63): a broker reports that it is alive, or is to be fenced or shut down (KIP-500).

    v1  log directories that went offline (KIP-858)
    v2  cordoned log directories (KIP-1066)

    How far the broker has read the metadata log, and what it requests.
    """

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+")
    want_shut_down: bool = boolean("0+")
    offline_log_dirs: list[UUID] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[UUID] | None = array(uuid, "2+", nullable="2+", default=None, tag=1)


class BrokerHeartbeatResponse(Response, answers=BrokerHeartbeatRequest):
    """The controller's instructions to the broker."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+")
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+")


class ControlledShutdownRequest(
    Request["ControlledShutdownResponse"],
    key=7,
    versions="0-3",
    flexible="3+",
    scope="broker",
    deprecated="0-3",
    without_client_id="0",
):
    """ControlledShutdown (API key 7): asks the controller to move leaders away from a broker that is about to stop.

    Goes to the controller of a ZooKeeper cluster; under KRaft the broker's heartbeat says so.

    v0  the request's header has no client id: see `api`
    v2  broker epoch (KIP-380)
    v3  flexible

    The broker that wants to stop.
    """

    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Response, answers=ControlledShutdownRequest):
    """The partitions that this broker still leads; when there are none, it may stop."""

    class RemainingPartition(Struct):
        """A partition without another leader yet."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")


class UnregisterBrokerRequest(
    Request["UnregisterBrokerResponse"], key=64, versions="0", flexible="0+", client_waits="0+"
):
    """UnregisterBroker (API key 64): removes a broker's registration; the broker must be gone (KIP-500).

    The broker.
    """

    ROUTE = Route(RequestTarget.CONTROLLER, RetrySafety.SAME_EFFECT, done_already=(ErrorCode.BROKER_ID_NOT_REGISTERED,))
    PERMISSIONS = permissions("ALTER cluster")
    ERRORS = error_policy(f"{CONTROLLER} BROKER_ID_NOT_REGISTERED")

    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Response, answers=UnregisterBrokerRequest):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ControllerRegistrationRequest(
    Request["ControllerRegistrationResponse"], key=70, versions="0", flexible="0+", scope="controller"
):
    """ControllerRegistration (API key 70): a controller registers with the active one (KIP-919).

    Where the controller listens and what it can do.
    """

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


class ControllerRegistrationResponse(Response, answers=ControllerRegistrationRequest):
    """Whether it worked."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AllocateProducerIdsRequest(
    Request["AllocateProducerIdsResponse"], key=67, versions="0", flexible="0+", scope="controller"
):
    """AllocateProducerIds (API key 67): a broker asks the controller for a block of producer ids (KIP-730).

    The broker and its epoch.
    """

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Response, answers=AllocateProducerIdsRequest):
    """The first id and how many."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"], key=73, versions="0", flexible="0+", scope="controller"
):
    """AssignReplicasToDirs (API key 73): a broker reports on which disks its replicas are (KIP-858).

    Partitions per directory.
    """

    class DirectoryData(Struct):
        class TopicData(Struct):
            class PartitionData(Struct):
                partition_index: int = int32("0+")

            topic_id: UUID = uuid("0+")
            partitions: list[PartitionData] = array(PartitionData, "0+")

        id: UUID = uuid("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = DirectoryData.TopicData
    PartitionData: TypeAlias = TopicData.PartitionData

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    directories: list[DirectoryData] = array(DirectoryData, "0+")


class AssignReplicasToDirsResponse(Response, answers=AssignReplicasToDirsRequest):
    """An error per partition."""

    class DirectoryData(Struct):
        class TopicData(Struct):
            class PartitionData(Struct):
                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            topic_id: UUID = uuid("0+")
            partitions: list[PartitionData] = array(PartitionData, "0+")

        id: UUID = uuid("0+")
        topics: list[TopicData] = array(TopicData, "0+")

    TopicData: TypeAlias = DirectoryData.TopicData
    PartitionData: TypeAlias = TopicData.PartitionData

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    directories: list[DirectoryData] = array(DirectoryData, "0+")


class EnvelopeRequest(Request["EnvelopeResponse"], key=58, versions="0", flexible="0+", scope="controller"):
    """Envelope (API key 58): carries a client's request from a broker to the controller (KIP-590).

    The client's whole request, header included, and who it comes from.
    """

    request_data: bytes = byte_string("0+")
    request_principal: bytes | None = byte_string("0+", nullable="0+")
    client_host_address: bytes = byte_string("0+")


class EnvelopeResponse(Response, answers=EnvelopeRequest):
    """The whole response to it."""

    response_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    error_code: int = int16("0+")
