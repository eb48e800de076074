"""Groups of the new consumer protocol in `__consumer_offsets` (KIP-848): a record type for each part of their state.

Keys begin with their type: 3 group, 4 its topics (up to 4.0), 5 member, 6 and 7 the target assignment, 8 a member's
current assignment, 16 the topics that a regular expression matches. The group's committed offsets: group_records.
"""

# mypy: disable-error-code=misc

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, byte_string, int8, int32, int64, string, struct, uuid
from kseg.client.protocol.schema import Struct


class ConsumerGroupMetadataKey(TypedMessage, key=3, versions="0"):
    """A group."""

    group_id: str = string("0")


class ConsumerGroupMetadataValue(TypedMessage, key=3, versions="0", flexible="0+"):
    """A group's epoch: it rises when members or topics change."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(TypedMessage, key=4, versions="0"):
    """A group's topics."""

    group_id: str = string("0")


class ConsumerGroupPartitionMetadataValue(TypedMessage, key=4, versions="0", flexible="0+"):
    """The topics that a group's members subscribe to, as they were when last read."""

    class TopicMetadata(Struct):
        class PartitionMetadata(Struct):
            partition: int = int32("0+")
            racks: list[str] = array(string, "0+")

        topic_id: UUID = uuid("0+")
        topic_name: str = string("0+")
        num_partitions: int = int32("0+")
        partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")

    PartitionMetadata: TypeAlias = TopicMetadata.PartitionMetadata

    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(TypedMessage, key=5, versions="0"):
    """A member."""

    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupMemberMetadataValue(TypedMessage, key=5, versions="0", flexible="0+"):
    """A member's metadata, from its heartbeats."""

    class ClassicMemberMetadata(Struct):
        """Metadata of a member that uses the classic protocol, while a group is migrated."""

        class ClassicProtocol(Struct):
            name: str = string("0+")
            metadata: bytes = byte_string("0+")

        session_timeout_ms: int = int32("0+")
        supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")

    ClassicProtocol: TypeAlias = ClassicMemberMetadata.ClassicProtocol

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, "0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(TypedMessage, key=6, versions="0"):
    """A group's target assignment."""

    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(TypedMessage, key=6, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(TypedMessage, key=7, versions="0"):
    """A member's part of the target assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupTargetAssignmentMemberValue(TypedMessage, key=7, versions="0", flexible="0+"):
    """The member's target partitions."""

    class TopicPartition(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")

    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(TypedMessage, key=8, versions="0"):
    """A member's current assignment."""

    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupCurrentMemberAssignmentValue(TypedMessage, key=8, versions="0", flexible="0+"):
    """The member's current partitions, and those that it has to revoke first."""

    class TopicPartitions(Struct):
        topic_id: UUID = uuid("0+")
        partitions: list[int] = array(int32, "0+")
        assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tag=0)

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(TypedMessage, key=16, versions="0"):
    """A regular expression that members subscribe by."""

    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(TypedMessage, key=16, versions="0", flexible="0+"):
    """The topics that it matches; `version` is the metadata image's."""

    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
