"""Records of internal topics as documents: nothing is lost, and no bytes trip the reader."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol.embedded import internal_topics
from kseg.client.protocol.embedded.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from kseg.client.protocol.embedded.control_records import (
    ControlRecordType,
    EndTxnMarker,
    VotersRecord,
    encode_control_record,
)
from kseg.client.protocol.embedded.group_records import GroupMetadataKey, GroupMetadataValue
from kseg.client.protocol.embedded.internal_topics import CONSUMER_OFFSETS, TOPICS, decode_internal, encode_internal
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.json_form import from_json
from kseg.client.protocol.record_json import decode_control_to_json, decode_to_json, is_sensitive


def known() -> list[tuple[str, Any, Any, int]]:
    """(topic, key class, value class, version) of every type in every version."""
    found: list[tuple[str, Any, Any, int]] = []
    for topic, pairs in internal_topics._COORDINATORS.items():
        for key, value in pairs.values():
            found += [(topic, key, value, v) for v in range(value.VERSIONS.lowest, value.VERSIONS.highest + 1)]
    for topic, classes in internal_topics._LOGS.items():
        for cls in classes.values():
            found += [(topic, None, cls, v) for v in range(cls.VERSIONS.lowest, cls.VERSIONS.highest + 1)]
    return found


def test_the_documents_say_all_of_a_record(any_message: Callable[[random.Random, Any, int], Any]) -> None:
    rng = random.Random(20261121)
    for topic, key_class, value_class, version in known():
        key = None if key_class is None else any_message(rng, key_class, 0)
        value = any_message(rng, value_class, version)
        if isinstance(value, GroupMetadataValue):
            value.protocol_type = "connect"  # a consumer's bytes are opened: see below
        coded = encode_internal(topic, key, value, version)
        decoded = decode_to_json(topic, *coded, secrets=True)
        assert decoded.unknown is None
        assert decoded.value is not None
        assert from_json(value_class, decoded.value["data"], version) == value
        assert int(decoded.value["version"]) == version
        if key_class is not None:
            assert decoded.key is not None
            assert from_json(key_class, decoded.key["data"], 0) == key
            assert decode_to_json(topic, coded[0], None).value is None
            assert f"{decoded.type}Key" == key_class.__name__
        else:
            assert f"{decoded.type}Record" == value_class.__name__


def test_a_consumer_s_subscription_is_opened_and_another_s_bytes_are_not() -> None:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 1)
    member = GroupMetadataValue.MemberMetadata
    members = [member(member_id="a", subscription=subscription), member(member_id="b", subscription=b"??")]
    value = GroupMetadataValue(protocol_type="consumer", protocol=None, leader=None, members=members)
    key, data = encode_internal(CONSUMER_OFFSETS, GroupMetadataKey(group="g"), value, 3)
    decoded = decode_to_json(CONSUMER_OFFSETS, key, data)
    assert decoded.value is not None
    first, second = decoded.value["data"]["members"]
    assert first["subscription"] == {"topics": ["orders"], "userData": None, "ownedPartitions": []}
    assert first["assignment"]["assignedPartitions"] == []
    assert second["subscription"] == "Pz8="


def test_control_records_are_told_by_their_names() -> None:
    decoded = decode_control_to_json(
        *encode_control_record(ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=3))
    )
    assert (decoded.type, decoded.value) == ("COMMIT", {"coordinatorEpoch": 3})
    decoded = decode_control_to_json(*encode_control_record(ControlRecordType.KRAFT_VOTERS, VotersRecord()))
    assert (decoded.type, decoded.value) == ("KRAFT_VOTERS", {"version": 0, "voters": []})
    assert decode_control_to_json(b"\0\0\0\x09", b"??").unknown == "type 9 is not known"
    assert decode_control_to_json(b"\0\0\0\6", b"\0\x63?").unknown == "this version of KRAFT_VOTERS is not known"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.external.scram-sha-256.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("delegation.token.secret.key", True),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("delegation.token.max.lifetime.ms", False),
        ("retention.ms", False),
        ("ssl.truststore.location", False),
    ],
)
def test_which_settings_are_secrets(name: str, secret: bool) -> None:
    assert is_sensitive(name) == secret


@given(
    st.sampled_from(sorted(TOPICS)),
    st.none()
    | st.binary(max_size=80)
    | st.builds(lambda n, rest: bytes([0, n]) + rest, st.integers(0, 25), st.binary()),
    st.none()
    | st.binary(max_size=80)
    | st.builds(lambda n, rest: bytes([0, n]) + rest, st.integers(0, 5), st.binary()),
)
def test_any_bytes_are_told_or_a_decode_error(topic: str, key: bytes | None, value: bytes | None) -> None:
    try:
        decoded = decode_to_json(topic, key, value)
    except DecodeError:
        with pytest.raises(DecodeError):
            decode_internal(topic, key, value)
    else:
        assert decoded.unknown is not None or decoded.value is not None or value is None


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_control_record_is_told_or_a_decode_error(key: bytes, value: bytes) -> None:
    try:
        decoded = decode_control_to_json(key, value)
    except DecodeError:
        return
    assert (decoded.unknown is None) == (decoded.value is not None)
