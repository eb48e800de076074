"""Leaders and in-sync replicas, as controllers and brokers send them to each other."""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class LeaderAndIsrRequest(
    Request["LeaderAndIsrResponse"], key=4, versions="0-7", flexible="4+", scope="broker", deprecated="0-7"
):
    """LeaderAndIsr (API key 4): informs a broker which partitions it leads or follows.

    Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

    v1  whether a partition is new; KAFKA_STORAGE_ERROR
    v2  broker epoch; partitions grouped by topic (below, each has its topic)
    v3  replicas that are being added and removed (KIP-455)
    v4  flexible
    v5  topic ids, and whether all partitions are included (KIP-516)
    v6  recovery state of the leader (KIP-704)
    v7  whether the sender is a KRaft controller (KIP-866)

    Partitions by themselves up to v1, by topic from v2; `type` 1 is an incremental request, 2 a full one.
    """

    class LeaderAndIsrTopicState(Struct):
        class LeaderAndIsrPartitionState(Struct):
            """The partition's leader and replicas; `topic_name` up to v1."""

            topic_name: str = string("0-1", ignorable=True)
            partition_index: int = int32("0+")
            controller_epoch: int = int32("0+")
            leader: int = int32("0+")
            leader_epoch: int = int32("0+")
            isr: list[int] = array(int32, "0+")
            partition_epoch: int = int32("0+")
            replicas: list[int] = array(int32, "0+")
            adding_replicas: list[int] = array(int32, "3+", ignorable=True)
            removing_replicas: list[int] = array(int32, "3+", ignorable=True)
            is_new: bool = boolean("1+", ignorable=True)
            leader_recovery_state: int = int8("6+")

        topic_name: str = string("2+")
        topic_id: UUID = uuid("5+", ignorable=True)
        partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")

    class LeaderAndIsrLiveLeader(Struct):
        """The address of a leader named above."""

        broker_id: int = int32("0+")
        host_name: str = string("0+")
        port: int = int32("0+")

    LeaderAndIsrPartitionState: TypeAlias = LeaderAndIsrTopicState.LeaderAndIsrPartitionState

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("7+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")


class LeaderAndIsrResponse(Response, answers=LeaderAndIsrRequest):
    """An error per partition; by topic from v5."""

    class LeaderAndIsrTopicError(Struct):
        class LeaderAndIsrPartitionError(Struct):
            topic_name: str = string("0-4", ignorable=True)
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        topic_id: UUID = uuid("5+")
        partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")

    LeaderAndIsrPartitionError: TypeAlias = LeaderAndIsrTopicError.LeaderAndIsrPartitionError

    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


class StopReplicaRequest(
    Request["StopReplicaResponse"], key=5, versions="0-4", flexible="2+", scope="broker", deprecated="0-4"
):
    """StopReplica (API key 5): requests that a broker stop following partitions, or delete its copies of them.

    Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

    v1  broker epoch; partitions grouped by topic
    v2  flexible
    v3  leader epoch and deletion partition by partition; FENCED_LEADER_EPOCH (KIP-570)
    v4  whether the sender is a KRaft controller (KIP-866)

    The partitions are in another list in v0, in v1 to v2, and from v3.
    """

    class StopReplicaPartitionV0(Struct):
        """Only v0."""

        topic_name: str = string("0")
        partition_index: int = int32("0")

    class StopReplicaTopicV1(Struct):
        """Only v1 and v2."""

        name: str = string("1-2")
        partition_indexes: list[int] = array(int32, "1-2")

    class StopReplicaTopicState(Struct):
        """From v3."""

        class StopReplicaPartitionState(Struct):
            """`leader_epoch` -2 goes with a topic's deletion."""

            partition_index: int = int32("3+")
            leader_epoch: int = int32("3+", default=-1)
            delete_partition: bool = boolean("3+")

        topic_name: str = string("3+")
        partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")

    StopReplicaPartitionState: TypeAlias = StopReplicaTopicState.StopReplicaPartitionState

    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("4+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaResponse(Response, answers=StopReplicaRequest):
    """An error per partition."""

    class StopReplicaPartitionError(Struct):
        topic_name: str = string("0+")
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")


class UpdateMetadataRequest(
    Request["UpdateMetadataResponse"], key=6, versions="0-8", flexible="6+", scope="broker", deprecated="0-8"
):
    """UpdateMetadata (API key 6): sends a broker the cluster's metadata, for its answers to Metadata.

    Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

    v1  many endpoints a broker
    v2  racks
    v3  listener names
    v4  offline replicas
    v5  broker epoch; partitions grouped by topic
    v6  flexible
    v7  topic ids (KIP-516)
    v8  whether the sender is a KRaft controller, and whether all partitions are included (KIP-866)

    Partitions by themselves up to v4, by topic from v5.
    """

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
        """Host and port are here in v0, in `endpoints` from v1."""

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


class UpdateMetadataResponse(Response, answers=UpdateMetadataRequest):
    """Whether it worked."""

    error_code: int = int16("0+")


class AlterPartitionRequest(
    Request["AlterPartitionResponse"], key=56, versions="0-3", flexible="0+", scope="controller", deprecated="0-1"
):
    """AlterPartition (API key 56): a leader requests a change of its in-sync replicas (KIP-497).

    v1  recovery state (KIP-704)
    v2  topics by id (KIP-841)
    v3  in-sync replicas with their broker epochs (KIP-903)

    The requested state per partition.
    """

    class TopicData(Struct):
        class PartitionData(Struct):
            class BrokerState(Struct):
                broker_id: int = int32("3+")
                broker_epoch: int = int64("3+", default=-1)

            partition_index: int = int32("0+")
            leader_epoch: int = int32("0+")
            new_isr: list[int] = array(int32, "0-2")
            new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
            leader_recovery_state: int = int8("1+")
            partition_epoch: int = int32("0+")

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData
    BrokerState: TypeAlias = PartitionData.BrokerState

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+")


class AlterPartitionResponse(Response, answers=AlterPartitionRequest):
    """The state after the request."""

    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            isr: list[int] = array(int32, "0+")
            leader_recovery_state: int = int8("1+", ignorable=True)
            partition_epoch: int = int32("0+")

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    PartitionData: TypeAlias = TopicData.PartitionData

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")
