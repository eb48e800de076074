"""Share groups in `__consumer_offsets` and their state in `__share_group_state` (KIP-932).

Keys begin with their type. In `__consumer_offsets`: 10 member, 11 group, 12 and 13 the target assignment, 14 a member's
current assignment, 15 the partitions with state. In `__share_group_state`: 0 a snapshot of a state, 1 a change to it.
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, int8, int16, int32, int64, string, uuid
from kseg.client.protocol.schema import Struct


class ShareGroupMemberMetadataKey(TypedMessage, key=10, versions="0"):
    """A member."""

    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupMemberMetadataValue(TypedMessage, key=10, versions="0", flexible="0+"):
    """A member's metadata, from its heartbeats."""

    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")


class ShareGroupMetadataKey(TypedMessage, key=11, versions="0"):
    """A group."""

    group_id: str = string("0")


class ShareGroupMetadataValue(TypedMessage, key=11, versions="0", flexible="0+"):
    """A group's epoch: it rises when members or topics change."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


class ShareGroupTargetAssignmentMetadataKey(TypedMessage, key=12, versions="0"):
    """A group's target assignment."""

    group_id: str = string("0")


class ShareGroupTargetAssignmentMetadataValue(TypedMessage, key=12, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(TypedMessage, key=13, versions="0"):
    """A member's part of the target assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupTargetAssignmentMemberValue(TypedMessage, key=13, versions="0", flexible="0+"):
    """The member's target partitions."""

    class TopicPartition(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ShareGroupCurrentMemberAssignmentKey(TypedMessage, key=14, versions="0"):
    """A member's current assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupCurrentMemberAssignmentValue(TypedMessage, key=14, versions="0", flexible="0+"):
    """The member's current partitions."""

    class TopicPartitions(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupStatePartitionMetadataKey(TypedMessage, key=15, versions="0"):
    """A group's partitions with state."""

    group_id: str = string("0")


class ShareGroupStatePartitionMetadataValue(TypedMessage, key=15, versions="0", flexible="0+"):
    """Partitions whose state is being initialized, is initialized, or is being deleted."""

    class TopicPartitionsInfo(Struct):
        topic_id: UUID = uuid("0+")
        topic_name: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    class TopicInfo(Struct):
        topic_id: UUID = uuid("0+")
        topic_name: str = string("0+")

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+")


class ShareSnapshotKey(TypedMessage, key=0, versions="0"):
    """A partition of a share group."""

    group_id: str = string("0")
    topic_id: UUID = uuid("0")
    partition: int = int32("0")


class ShareSnapshotValue(TypedMessage, key=0, versions="0", flexible="0+"):
    """The partition's whole state."""

    class StateBatch(Struct):
        """Records in one state: 0 available, 2 acknowledged, 4 archived."""

        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        delivery_state: int = int8("0+")
        delivery_count: int = int16("0+")

    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[StateBatch] = array(StateBatch, "0+")


class ShareUpdateKey(TypedMessage, key=1, versions="0"):
    """A partition of a share group."""

    group_id: str = string("0")
    topic_id: UUID = uuid("0")
    partition: int = int32("0")


class ShareUpdateValue(TypedMessage, key=1, versions="0", flexible="0+"):
    """The changes since the snapshot of this epoch."""

    class StateBatch(Struct):
        """Records in one state: 0 available, 2 acknowledged, 4 archived."""

        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        delivery_state: int = int8("0+")
        delivery_count: int = int16("0+")

    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+")
