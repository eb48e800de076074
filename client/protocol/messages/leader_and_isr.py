"""LeaderAndIsr (API key 4): tells a broker which partitions it leads or follows.

Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

v1  whether a partition is new; KAFKA_STORAGE_ERROR
v2  broker epoch; partitions grouped by topic (below, each tells its topic)
v3  replicas that are being added and removed (KIP-455)
v4  flexible
v5  topic ids, and whether all partitions are told (KIP-516)
v6  recovery state of the leader (KIP-704)
v7  whether the sender is a KRaft controller (KIP-866)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Request, Response, Struct


class LeaderAndIsrRequest(
    Request["LeaderAndIsrResponse"], key=4, versions="0-7", flexible="4+", scope="broker", deprecated="0-7"
):
    """Partitions by themselves up to v1, by topic from v2; `type` 1 is an incremental request, 2 a full one."""

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
        """Where a leader named above listens."""

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


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
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
