"""Messages to bytes and back, and what is refused on the way."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.client.protocol.codec import decode, decode_prefix, encode, encode_parts
from kseg.client.protocol.errors import DecodeError, EncodeError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.messages.connection import ApiVersionsResponse
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse, ListOffsetsRequest
from kseg.client.protocol.messages.groups import HeartbeatResponse, JoinGroupRequest
from kseg.client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kseg.client.protocol.messages.offsets import OffsetFetchRequest
from kseg.client.protocol.messages.placement import DescribeLogDirsRequest
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.messages.transactions import AddOffsetsToTxnRequest
from kseg.client.protocol.schema import Message

SOME_ID = UUID("0a1b2c3d-0000-4000-8000-00000000002a")

fetch_request: Any = FetchRequest  # for values that a type checker would refuse
join_group_protocol: Any = JoinGroupRequest.JoinGroupRequestProtocol


def round_trip(message: Message, version: int) -> None:
    data = encode(message, version)
    assert decode(type(message), version, data) == message
    assert decode(type(message), version, memoryview(bytearray(b"..." + data)), 3) == message


def test_what_is_written_is_read_again_in_every_class_and_version(
    pairs: list[tuple[type[Message], int]],
    any_message: Callable[[random.Random, type[Message], int], Any],
    scale: Callable[[int, int], int],
) -> None:
    rng = random.Random(20260117)
    for cls, version in pairs * scale(4, 40):
        round_trip(any_message(rng, cls, version), version)


def test_what_is_written_is_read_again(
    any_pair: st.SearchStrategy[tuple[Message, int]], scale: Callable[[int, int], int]
) -> None:
    @settings(max_examples=scale(100, 5000), suppress_health_check=list(HealthCheck))
    @given(any_pair)
    def written_and_read(pair: tuple[Message, int]) -> None:
        round_trip(*pair)

    written_and_read()


@pytest.mark.rule(88)
def test_a_fetch_request_stands_in_bytes_as_the_protocol_says() -> None:
    partition = FetchRequest.FetchPartition(partition=1, fetch_offset=42, partition_max_bytes=9)
    topic = FetchRequest.FetchTopic(topic="t", partitions=[partition])
    request = FetchRequest(max_wait_ms=500, min_bytes=1, isolation_level=1, topics=[topic])
    assert encode(request, 4).hex(" ") == (
        "ff ff ff ff 00 00 01 f4 00 00 00 01 7f ff ff ff 01 "  # replica, wait, bytes, isolation
        "00 00 00 01 00 01 74 "  # one topic: "t"
        "00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 2a 00 00 00 09"  # one partition: 1, offset 42
    )


@pytest.mark.rule(91)
def test_record_sets_are_not_copied() -> None:
    records = memoryview(bytes(1000))
    data = ProduceRequest.PartitionProduceData(records=records)
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=[data])])
    assert any(part is records for part in encode_parts(request, 9))

    answer = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData()])])
    answer.responses[0].partitions[0].records = b"record set"
    frame = encode(answer, 12)
    read = decode(FetchResponse, 12, frame).responses[0].partitions[0].records
    assert isinstance(read, memoryview)
    assert read.obj is frame
    assert bytes(read) == b"record set"


@pytest.mark.rule(71)
def test_a_value_without_a_place_in_the_version_is_refused() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    assert encode(request, 4)
    with pytest.raises(UnsupportedFieldError) as caught:
        encode(request, 3)
    assert (caught.value.message, caught.value.version) == ("MetadataRequest", 3)
    assert caught.value.field == "allow_auto_topic_creation"
    assert not caught.value.retriable


def test_require_stable_is_refused_where_offset_fetch_cannot_carry_it() -> None:
    with pytest.raises(UnsupportedFieldError, match="require_stable"):
        encode(OffsetFetchRequest(require_stable=True), 6)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("forgotten_topics_data", [FetchRequest.ForgottenTopic()]),
        ("replica_state", FetchRequest.ReplicaState(replica_id=3)),
        ("forgotten_topics_data", None),
    ],
)
def test_lists_and_structs_without_a_place_are_refused(field: str, value: object) -> None:
    with pytest.raises(UnsupportedFieldError, match=field):
        encode(fetch_request(**{field: value}), 4)


@pytest.mark.rule(188)
def test_a_value_that_may_be_ignored_is_left_out() -> None:
    with_rack = FetchRequest(rack_id="r", session_id=4)
    assert encode(with_rack, 4) == encode(FetchRequest(), 4)
    assert decode(FetchRequest, 4, encode(with_rack, 4)).rack_id == ""


def test_a_default_struct_without_a_place_is_left_out() -> None:
    assert encode(FetchRequest(replica_state=FetchRequest.ReplicaState()), 4) == encode(FetchRequest(), 4)


def with_partition(**values: Any) -> FetchRequest:
    return FetchRequest(topics=[FetchRequest.FetchTopic(partitions=[FetchRequest.FetchPartition(**values)])])


@pytest.mark.parametrize(
    ("message", "version", "field", "reason"),
    [
        (with_partition(fetch_offset=1 << 63), 12, "topics[0].partitions[0].fetch_offset", "outside of int64"),
        (with_partition(partition="0"), 12, "topics[0].partitions[0].partition", "not an integer"),
        (with_partition(partition=None), 12, "topics[0].partitions[0].partition", "is None"),
        (with_partition(replica_directory_id="x"), 17, "topics[0].partitions[0].replica_directory_id", "not a UUID"),
        (fetch_request(topics=None), 12, "topics", "is None"),
        (fetch_request(topics=7), 12, "topics", "not a list"),
        (fetch_request(topics=["t"]), 12, "topics[0]", "no FetchRequest.FetchTopic"),
        (FetchRequest(rack_id="r" * 40000), 12, "rack_id", "40000 bytes, 32767 allowed"),
        (fetch_request(rack_id=b"r"), 12, "rack_id", "not a string"),
        (FetchRequest(rack_id="\ud800"), 12, "rack_id", "not Unicode text"),
        (MetadataRequest(topics=None), 0, "topics", "is None"),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None)]), 9, "topics[0].name", "is None"),
        (JoinGroupRequest(protocols=[join_group_protocol(metadata="x")]), 5,
         "protocols[0].metadata", "not a byte string"),
        (DescribeLogDirsRequest(topics=[DescribeLogDirsRequest.DescribableLogDirTopic(partitions=[1 << 31])]), 2,
         "topics[0].partitions[0]", "outside of int32"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named(message: Message, version: int, field: str, reason: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(message, version)
    assert caught.value.field == field
    assert reason in caught.value.reason
    assert type(message).__name__ in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_attribute_is_named() -> None:
    request = FetchRequest()
    del request.max_wait_ms
    with pytest.raises(EncodeError, match="max_wait_ms"):
        encode(request, 4)


@pytest.mark.parametrize("version", [-1, 19])
def test_a_version_without_a_definition_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match="0 to 18"):
        encode(FetchRequest(), version)
    with pytest.raises(UnsupportedVersionError, match="0 to 18"):
        decode(FetchRequest, version, b"")


def test_bytes_left_over_are_refused_with_their_position() -> None:
    data = encode(AddOffsetsToTxnRequest(transactional_id="x"), 0)
    with pytest.raises(DecodeError, match="1 bytes left") as caught:
        decode(AddOffsetsToTxnRequest, 0, data + b"\0")
    assert caught.value.position == len(data)
    assert decode_prefix(AddOffsetsToTxnRequest, 0, data + b"\0")[1] == len(data)


@pytest.mark.parametrize(
    ("data", "position", "reason"),
    [
        (b"", 0, "6 bytes needed, 0 left"),
        (b"\0\0\0\7", 0, "6 bytes needed, 4 left"),
        (b"\0\0\0\7\0\0", 6, "1 bytes needed, 0 left"),
        (b"\0\0\0\7\0\0\1", 7, "1 bytes needed, 0 left"),
        (b"\0\0\0\7\0\0\1\0\5abc", 9, "5 bytes needed, 3 left"),
        (b"\0\0\0\7\0\0\xff\xff\xff\xff\x7f", 6, "varint above 32 bits"),
        (b"\0\0\0\7\0\0\xff\xff\xff\xff\xff\x01", 6, "varint longer than 5 bytes"),
    ],
)
def test_a_short_message_says_where_it_ends(data: bytes, position: int, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(HeartbeatResponse, 4, data)
    assert (caught.value.position, caught.value.reason) == (position, reason)
    assert (caught.value.message, caught.value.version) == ("HeartbeatResponse", 4)
    assert "byte" in str(caught.value)


@pytest.mark.rule(89)
def test_null_is_refused_where_a_version_has_none() -> None:
    with pytest.raises(DecodeError, match="null"):
        decode(AddOffsetsToTxnRequest, 0, b"\xff\xff" + bytes(12))
    with pytest.raises(DecodeError, match="null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_a_string_that_is_no_utf8_is_refused_at_its_byte() -> None:
    with pytest.raises(DecodeError, match="UTF-8") as caught:
        decode(AddOffsetsToTxnRequest, 0, b"\0\3ab\xff" + bytes(12))
    assert caught.value.position == 4


@pytest.mark.rule(90)
@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00", b"\x80\x00\x00\x00"])
def test_a_count_beyond_the_frame_is_refused_before_anything_is_made(count: bytes) -> None:
    started = time.process_time()
    with pytest.raises(DecodeError, match="elements"):
        decode(MetadataResponse, 0, count + bytes(1000))
    assert time.process_time() - started < 1


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = encode(HeartbeatResponse(throttle_time_ms=7), 4)
    assert data[-1:] == b"\0"
    unknown = b"\2" + b"\5\3abc" + b"\x88\x27\0"
    assert decode(HeartbeatResponse, 4, data[:-1] + unknown) == HeartbeatResponse(throttle_time_ms=7)


def test_a_known_tag_is_read_among_unknown_ones() -> None:
    data = encode(ApiVersionsResponse(), 3)
    tags = b"\3" + b"\1\x08" + (5).to_bytes(8, "big") + b"\3\1\1" + b"\x50\2??"
    read = decode(ApiVersionsResponse, 3, data[:-1] + tags)
    assert read == ApiVersionsResponse(finalized_features_epoch=5, zk_migration_ready=True)


def test_a_tagged_field_whose_size_is_not_its_values_is_refused() -> None:
    data = encode(ApiVersionsResponse(), 3)
    with pytest.raises(DecodeError, match="2 bytes after its value"):
        decode(ApiVersionsResponse, 3, data[:-1] + b"\1" + b"\1\x0a" + bytes(10))
    with pytest.raises(DecodeError, match="8 bytes needed, 4 left"):
        decode(ApiVersionsResponse, 3, data[:-1] + b"\1" + b"\1\x04" + bytes(10))


def test_tagged_fields_are_written_only_where_they_differ_from_their_defaults() -> None:
    plain = encode(FetchRequest(), 12)
    assert plain[-1:] == b"\0"
    assert encode(FetchRequest(cluster_id="c"), 12) == plain[:-1] + b"\1\0\2\2c"


def test_metadata_of_ten_thousand_partitions_takes_a_fraction_of_a_second() -> None:
    partitions = [
        MetadataResponse.MetadataResponsePartition(partition_index=i, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
        for i in range(10_000)
    ]
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=SOME_ID, partitions=partitions)
    answer = MetadataResponse(topics=[topic])
    data = encode(answer, 12)
    started = time.process_time()
    read = decode(MetadataResponse, 12, data)
    assert time.process_time() - started < 1  # 25 ms on an idle core
    assert read == answer


def test_a_request_by_time_is_the_same_in_all_versions_but_for_its_form() -> None:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=3, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])]
    )
    for version in range(1, 12):
        assert decode(ListOffsetsRequest, version, encode(request, version)) == request
