"""What consumers of a classic group tell each other, byte by byte (parity with Java: ../test_golden.py)."""

from __future__ import annotations

import pytest

from kseg.client.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kseg.client.protocol.embedded.framing import version_of
from kseg.client.protocol.errors import DecodeError, UnsupportedVersionError

OWNED = [ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[0, 2])]
SUBSCRIPTION = ConsumerProtocolSubscription(topics=["t"], owned_partitions=OWNED, generation_id=5, rack_id="r")
ASSIGNED = [ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 2])]
ASSIGNMENT = ConsumerProtocolAssignment(assigned_partitions=ASSIGNED, user_data=b"u")


@pytest.mark.rule(213)
def test_a_subscription_stands_behind_its_version() -> None:
    assert encode_subscription(ConsumerProtocolSubscription(topics=["t"]), 0).hex(" ") == (
        "00 00 00 00 00 01 00 01 74 ff ff ff ff"
    )


@pytest.mark.rule(214)
@pytest.mark.parametrize("version", range(4))
def test_a_version_carries_what_it_has_and_leaves_out_the_rest(version: int) -> None:
    data = encode_subscription(SUBSCRIPTION, version)
    assert version_of(data) == version
    told = decode_subscription(data)
    assert told.topics == ["t"]
    assert told.owned_partitions == (OWNED if version >= 1 else [])
    assert told.generation_id == (5 if version >= 2 else -1)
    assert told.rack_id == ("r" if version >= 3 else None)
    assert decode_assignment(encode_assignment(ASSIGNMENT, version)) == ASSIGNMENT


def test_a_newer_version_is_read_as_the_last_one_that_is_known() -> None:
    newer = b"\x00\x09" + encode_subscription(SUBSCRIPTION)[2:] + b"more"
    assert decode_subscription(newer) == SUBSCRIPTION
    newer = b"\x00\x09" + encode_assignment(ASSIGNMENT)[2:] + b"more"
    assert decode_assignment(newer) == ASSIGNMENT


def test_no_bytes_at_all_are_an_empty_assignment_and_no_subscription() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()
    with pytest.raises(DecodeError, match="2 bytes needed"):
        decode_subscription(b"")


def test_every_cut_and_every_byte_too_many_is_refused() -> None:
    data = encode_subscription(SUBSCRIPTION)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_subscription(data[:end])
    with pytest.raises(DecodeError, match="1 bytes left"):
        decode_subscription(data + b"\x00")


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_subscription(b"\xff\xff\x00\x00\x00\x00")
