"""The consumer protocol inside of a classic group (protocol type "consumer"), opaque to brokers.

A subscription is in JoinGroup's metadata, an assignment in SyncGroup; both also in DescribeGroups' response.

v1  the partitions that the member owns, for cooperative rebalancing (KIP-429)
v2  the generation in which they were assigned to it (KIP-792)
v3  the member's rack (KIP-881)

The assignment has the same versions and never changed. Later versions may only append fields, so a version above 3 is
read as version 3, as Java's consumer does.
"""

from __future__ import annotations

from kseg.client.protocol.embedded.framing import decode_versioned, encode_versioned
from kseg.client.protocol.fields import ByteString, array, byte_string, int32, string
from kseg.client.protocol.schema import Message, Struct

PROTOCOL_TYPE = "consumer"


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The topics that a member subscribes to, and the partitions that it owns."""

    class TopicPartition(Struct):
        topic: str = string("1+")
        partitions: list[int] = array(int32, "1+")

    topics: list[str] = array(string, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The partitions that are assigned to a member."""

    class TopicPartition(Struct):
        topic: str = string("0+")
        partitions: list[int] = array(int32, "0+")

    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """Version and body. Fields that the version does not have are left out. Raises `EncodeError`."""
    return encode_versioned(subscription, version)


def decode_subscription(data: ByteString) -> ConsumerProtocolSubscription:
    """Raises `DecodeError`, and `UnsupportedVersionError` for a negative version."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """Version and body. Raises `EncodeError`."""
    return encode_versioned(assignment, version)


def decode_assignment(data: ByteString) -> ConsumerProtocolAssignment:
    """Raises `DecodeError`, and `UnsupportedVersionError` for a negative version.

    Some leaders send no bytes at all to a member without partitions: that is an empty assignment.
    """
    return decode_versioned(ConsumerProtocolAssignment, data, newer=True) if data else ConsumerProtocolAssignment()
