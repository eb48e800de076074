"""The classic consumer's own protocol inside of a group (protocol type "consumer"), opaque to brokers.

A subscription is in JoinGroup's metadata, an assignment in SyncGroup's; both also in DescribeGroups' answer.

v1  the partitions that the member owns, for cooperative rebalancing (KIP-429)
v2  the generation in which it came to own them (KIP-792)
v3  the member's rack (KIP-881)

The assignment has the same versions and never changed. Later versions may only add at the end, so one that is newer
than this table is read as the last one here, as Java's consumer does.
"""

from __future__ import annotations

from kseg.client.protocol.embedded.framing import decode_versioned, encode_versioned
from kseg.client.protocol.fields import ByteString, array, byte_string, int32, string
from kseg.client.protocol.schema import Message, Struct

PROTOCOL_TYPE = "consumer"


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants to read, and what it holds."""

    class TopicPartition(Struct):
        topic: str = string("1+")
        partitions: list[int] = array(int32, "1+")

    topics: list[str] = array(string, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member is to read."""

    class TopicPartition(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """Version and body. What the version cannot carry is left out. Raises `EncodeError`."""
    return encode_versioned(subscription, version)


def decode_subscription(data: ByteString) -> ConsumerProtocolSubscription:
    """Raises `DecodeError`, and `UnsupportedVersionError` for a negative version."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """Version and body. Raises `EncodeError`."""
    return encode_versioned(assignment, version)


def decode_assignment(data: ByteString) -> ConsumerProtocolAssignment:
    """Raises `DecodeError`, and `UnsupportedVersionError` for a negative version.

    A member that is assigned nothing may get no bytes at all from some leaders: that is an empty assignment.
    """
    return decode_versioned(ConsumerProtocolAssignment, data, newer=True) if data else ConsumerProtocolAssignment()
