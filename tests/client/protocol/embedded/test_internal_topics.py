"""Records of Kafka's own topics, against Kafka's own code that reads and writes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client.protocol.embedded import control_records, group_records, internal_topics, transaction_records
from kseg.client.protocol.embedded.control_records import (
    ControlRecord,
    ControlRecordType,
    EndTxnMarker,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)
from kseg.client.protocol.embedded.group_records import OffsetCommitKey, OffsetCommitValue
from kseg.client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    TOPICS,
    TRANSACTION_STATE,
    InternalRecord,
    decode_internal,
    encode_internal,
)
from kseg.client.protocol.embedded.transaction_records import TransactionLogKey, TransactionLogValue, TransactionStatus
from kseg.client.protocol.errors import DecodeError

AnyMessage = Callable[[random.Random, Any, int], Any]
KEY = OffsetCommitKey(group="g", topic="t", partition=3)
VALUE = OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1)


def versions(cls: Any) -> range:
    return range(cls.VERSIONS.lowest, cls.VERSIONS.highest + 1)


def records(rng: random.Random, any_message: AnyMessage) -> list[tuple[str, Any, Any, int]]:
    """(topic, key, value, value's version) of every type in every version, and each key's tombstone."""
    made: list[tuple[str, Any, Any, int]] = []
    for topic, pairs in internal_topics._COORDINATORS.items():
        for key_class, value_class in pairs.values():
            made.append((topic, any_message(rng, key_class, 0), None, -1))
            for version in versions(value_class):
                key = any_message(rng, key_class, 0)
                made.append((topic, key, any_message(rng, value_class, version), version))
    for topic, classes in internal_topics._LOGS.items():
        for cls in classes.values():
            made += [(topic, None, any_message(rng, cls, version), version) for version in versions(cls)]
    return made


@pytest.mark.rule(232)
def test_every_type_and_version_stands_in_bytes_as_kafka_writes_it(
    any_message: AnyMessage, java: Callable[[str, str], list[str]]
) -> None:
    made = records(random.Random(20261121), any_message)
    assert len(made) == 100
    assert {topic for topic, *_ in made} == TOPICS
    coded = [encode_internal(topic, key, value, version) for topic, key, value, version in made]

    def hexed(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    lines = [f"{one[0]}\t{hexed(key)}\t{hexed(value)}" for one, (key, value) in zip(made, coded, strict=True)]
    *answers, abort, commit = java("InternalRecords.java", "\n".join(lines) + "\n")
    for (topic, key, value, version), (key_bytes, value_bytes), answer in zip(made, coded, answers, strict=True):
        names = (
            "-" if key is None else type(key).__name__,
            "-" if value is None else f"{type(value).__name__} {version}",
        )
        assert tuple(answer.split("\t")) == (*names, hexed(key_bytes), hexed(value_bytes)), topic
        assert decode_internal(topic, key_bytes, value_bytes) == InternalRecord(key, value, version), topic

    for line, kind in ((abort, ControlRecordType.ABORT), (commit, ControlRecordType.COMMIT)):
        name, key_hex, value_hex = line.split("\t")
        written = encode_control_record(kind, EndTxnMarker(coordinator_epoch=7))
        assert (name, bytes.fromhex(key_hex), bytes.fromhex(value_hex)) == (kind.name, *written)


def test_an_offset_commit_is_read_with_its_version() -> None:
    key, value = encode_internal(CONSUMER_OFFSETS, KEY, VALUE, 3)
    assert key is not None
    assert key.hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 03"
    assert decode_internal(CONSUMER_OFFSETS, key, value) == InternalRecord(KEY, VALUE, 3)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    key, _ = encode_internal(CONSUMER_OFFSETS, KEY, None, -1)
    assert decode_internal(CONSUMER_OFFSETS, key, None) == InternalRecord(KEY, None, -1)
    assert decode_internal(CLUSTER_METADATA, None, None) == InternalRecord(None, None, -1)


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_what_is_newer_than_this_table_stays_bytes(topic: str) -> None:
    assert decode_internal(topic, b"\x03\xe7new", b"\x7f\x7fnew") == InternalRecord(b"\x03\xe7new", b"\x7f\x7fnew", -1)


def test_a_value_in_a_newer_version_stays_bytes_beside_its_key() -> None:
    key, _ = encode_internal(CONSUMER_OFFSETS, KEY, None, -1)
    assert decode_internal(CONSUMER_OFFSETS, key, b"\x00\x63new") == InternalRecord(KEY, b"\x00\x63new", -1)
    # frame 1, a topic's record, version 9; and a frame that is newer itself
    for value in (b"\x01\x02\x09new", b"\x02\x02\x00new"):
        assert decode_internal(CLUSTER_METADATA, None, value) == InternalRecord(None, value, -1)


def test_damage_is_an_error_at_every_cut(any_message: AnyMessage) -> None:
    for topic, key, value, version in records(random.Random(7), any_message):
        key_bytes, value_bytes = encode_internal(topic, key, value, version)
        for data, parts in ((key_bytes, 0), (value_bytes, 1)):
            if data is None:
                continue
            for end in range(min(len(data), 200)):
                cut = [key_bytes, value_bytes]
                cut[parts] = data[:end]
                try:
                    told = decode_internal(topic, cut[0], cut[1])
                except DecodeError:
                    continue
                # A cut number may read as another, unknown one: then it is bytes. It is never a message.
                assert isinstance(told[parts], bytes), (topic, type(value), end)


def test_the_preview_of_kraft_is_refused() -> None:
    with pytest.raises(DecodeError, match="frame version 0"):
        decode_internal(CLUSTER_METADATA, None, b"\x00\x02\x00")


def test_a_topic_that_is_not_internal_is_refused() -> None:
    with pytest.raises(KeyError):
        decode_internal("orders", b"\0\1", b"")


@pytest.mark.rule(246)
def test_the_transaction_log_names_its_states() -> None:
    value = TransactionLogValue(producer_id=5, transaction_status=TransactionStatus.PREPARE_COMMIT)
    coded = encode_internal(TRANSACTION_STATE, TransactionLogKey(transactional_id="x"), value, 1)
    told = decode_internal(TRANSACTION_STATE, *coded)
    assert isinstance(told.value, TransactionLogValue)
    assert TransactionStatus(told.value.transaction_status).name == "PREPARE_COMMIT"


@pytest.mark.parametrize("module", [group_records, transaction_records, control_records])
def test_every_definition_says_what_it_is(module: Any) -> None:
    assert all(value.__doc__ for value in vars(module).values() if hasattr(value, "VERSIONS"))


def test_a_leader_change_is_read_in_the_version_that_it_begins_with() -> None:
    voter = LeaderChangeMessage.Voter(voter_id=3)
    change = LeaderChangeMessage(version=1, leader_id=3, voters=[voter], granting_voters=[voter])
    for version in (0, 1):
        change.version = version
        coded = encode_control_record(ControlRecordType.LEADER_CHANGE, change)
        assert coded[0].hex() == "00000002"
        assert decode_control_record(*coded) == ControlRecord(ControlRecordType.LEADER_CHANGE, change)
    assert len(coded[1]) > 32


@pytest.mark.rule(128)
def test_a_newer_marker_is_read_as_the_one_that_is_known() -> None:
    key, value = encode_control_record(ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=9))
    assert decode_control_record(b"\0\5" + key[2:] + b"more", b"\0\4" + value[2:] + b"more") == ControlRecord(
        ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=9)
    )


def test_an_unknown_control_record_stays_bytes() -> None:
    assert decode_control_record(b"\0\0\0\x09", b"??") == ControlRecord(9, b"??")
    assert decode_control_record(b"\0\0\0\6", b"\0\x63?") == ControlRecord(6, b"\0\x63?")


def test_damaged_control_records_are_errors() -> None:
    for key, value in ((b"\0", b""), (b"\xff\xff\0\1", b""), (b"\0\0\0\1", b"\xff\xff\0\0\0\0"), (b"\0\0\0\1", b"\0")):
        with pytest.raises(DecodeError):
            decode_control_record(key, value)


def test_a_control_record_carries_its_own_message_only() -> None:
    with pytest.raises(TypeError, match="EndTxnMarker"):
        encode_control_record(ControlRecordType.ABORT, VotersRecord())
    with pytest.raises(TypeError, match="VotersRecord"):
        encode_control_record(ControlRecordType.KRAFT_VOTERS, EndTxnMarker())
