"""UpdateMetadata (API key 6): tells a broker what the cluster looks like, for its answers to Metadata.

Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

v1  many endpoints a broker
v2  racks
v3  listener names
v4  offline replicas
v5  broker epoch; partitions grouped by topic
v6  flexible
v7  topic ids (KIP-516)
v8  whether the sender is a KRaft controller, and whether all partitions are told (KIP-866)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class UpdateMetadataRequest(
    Request["UpdateMetadataResponse"], key=6, versions="0-8", flexible="6+", scope="broker", deprecated="0-8"
):
    """Partitions by themselves up to v4, by topic from v5."""

    class UpdateMetadataTopicState(Struct):
        class UpdateMetadataPartitionState(Struct):
            """`topic_name` up to v4."""

            topic_name: str = string("0-4", ignorable=True)
            partition_index: int = int32("0+")
            controller_epoch: int = int32("0+")
            leader: int = int32("0+")
            leader_epoch: int = int32("0+")
            isr: list[int] = array(int32, "0+")
            zk_version: int = int32("0+")
            replicas: list[int] = array(int32, "0+")
            offline_replicas: list[int] = array(int32, "4+", ignorable=True)

        topic_name: str = string("5+")
        topic_id: UUID = uuid("7+", ignorable=True)
        partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")

    class UpdateMetadataBroker(Struct):
        """Host and port stand here in v0, in `endpoints` from v1."""

        class UpdateMetadataEndpoint(Struct):
            port: int = int32("1+")
            host: str = string("1+")
            listener: str = string("3+", ignorable=True)
            security_protocol: int = int16("1+")

        id: int = int32("0+")
        v0_host: str = string("0", ignorable=True)
        v0_port: int = int32("0", ignorable=True)
        endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
        rack: str | None = string("2+", nullable="0+", ignorable=True)

    UpdateMetadataPartitionState: TypeAlias = UpdateMetadataTopicState.UpdateMetadataPartitionState
    UpdateMetadataEndpoint: TypeAlias = UpdateMetadataBroker.UpdateMetadataEndpoint

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "0-4")
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+")


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    """Whether it worked."""

    error_code: int = int16("0+")
