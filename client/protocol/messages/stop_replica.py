"""StopReplica (API key 5): tells a broker to stop following partitions, or to delete its copies of them.

Sent by the controller of a ZooKeeper cluster; Kafka 4 has no such controller any more.

v1  broker epoch; partitions grouped by topic
v2  flexible
v3  leader epoch and deletion partition by partition; FENCED_LEADER_EPOCH (KIP-570)
v4  whether the sender is a KRaft controller (KIP-866)
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias

from kseg.client.protocol.fields import array, boolean, int16, int32, int64, string
from kseg.client.protocol.schema import Request, Response, Struct


class StopReplicaRequest(
    Request["StopReplicaResponse"], key=5, versions="0-4", flexible="2+", scope="broker", deprecated="0-4"
):
    """The partitions stand in another list in v0, in v1 to v2, and from v3."""

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


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    """An error per partition."""

    class StopReplicaPartitionError(Struct):
        topic_name: str = string("0+")
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")
