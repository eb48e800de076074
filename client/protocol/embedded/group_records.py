"""Offsets and groups in `__consumer_offsets`: what the group coordinator stores of classic groups.

A key begins with its type:

    0, 1  a committed offset (0 is what brokers before 0.9 wrote)
    2     a classic group: its generation and members

A null value is a tombstone. Records of the new protocols' groups: consumer_group_records, share_group_records,
streams_group_records.
"""

from __future__ import annotations

from uuid import UUID

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.fields import array, byte_string, int32, int64, string, uuid
from kseg.client.protocol.schema import Struct


class LegacyOffsetCommitKey(TypedMessage, key=0, versions="0"):
    """A group's partition whose offset was committed, before 0.9."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class LegacyOffsetCommitValue(TypedMessage, key=0, versions="0"):
    """The offset to read next, before 0.9. Times are ms since 1970."""

    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")


class OffsetCommitKey(TypedMessage, key=1, versions="0"):
    """A group's partition whose offset was committed."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(TypedMessage, key=1, versions="0-4", flexible="4+"):
    """The offset to read next.

    v1 has the time of expiry, v2 does not, since the broker's configuration decides; v3 has the leader epoch, v4 the
    topic's id.
    """

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(TypedMessage, key=2, versions="0"):
    """A classic group."""

    group: str = string("0")


class GroupMetadataValue(TypedMessage, key=2, versions="0-4", flexible="4+"):
    """A classic group's generation; without members and protocol it is empty.

    v1 has rebalance timeouts, v2 the time of the last state change, v3 instance ids; v4 is flexible.
    """

    class MemberMetadata(Struct):
        """`subscription` and `assignment` are the protocol type's own bytes: see consumer_protocol."""

        member_id: str = string("0+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
        client_id: str = string("0+")
        client_host: str = string("0+")
        rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
        session_timeout: int = int32("0+")
        subscription: bytes = byte_string("0+")
        assignment: bytes = byte_string("0+")

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
