"""The sans-IO connection: whatever bytes come, there is an answer, more is wanted, or a ProtocolFault is raised."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.errors import ProtocolFault, UnsupportedVersion
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kseg.client.protocol.messages.offsets import OffsetFetchRequest
from kseg.client.protocol.registry import API_BY_KEY, encode_response
from kseg.client.wire.connection import MAX_FETCH_FRAME, Answer, Connection

METADATA = API_BY_KEY[MetadataRequest.KEY]
FETCH = API_BY_KEY[FetchRequest.KEY]
VERSIONS = API_BY_KEY[ApiVersionsRequest.KEY]


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def feed(connection: Connection, data: bytes, step: int | None = None) -> list[Answer]:
    answers = []
    view = memoryview(data)
    while view:
        wanted = connection.wanted()
        assert len(wanted) > 0
        count = min(len(wanted), len(view), step or len(view))
        wanted[:count] = view[:count]
        view = view[count:]
        answer = connection.received(count)
        if answer is not None:
            answers.append(answer)
    return answers


def asked(*requests: tuple[object, int, object]) -> Connection:
    connection = Connection("me")
    for api, version, request in requests:
        connection.request(api, version, request)
    return connection


def metadata_answer(correlation_id: int, cluster_id: str = "c") -> bytes:
    return framed(encode_response(12, correlation_id, MetadataResponse(cluster_id=cluster_id)))


@pytest.mark.rule(7)
def test_a_request_is_framed_and_numbered():
    connection = Connection("me")
    first = connection.request(METADATA, 1, MetadataRequest(topics=None))
    second = connection.request(METADATA, 1, MetadataRequest(topics=None))
    assert struct.unpack_from(">ihhih", first) == (len(first) - 4, 3, 1, 0, 2)
    assert struct.unpack_from(">ihhih", second)[3] == 1
    assert b"me" in first
    assert connection.open == 2


def test_correlation_ids_begin_again_after_the_largest():
    connection = Connection("me")
    connection._next_correlation_id = 2**31 - 1
    last = connection.request(METADATA, 1, MetadataRequest(topics=None))
    next_ = connection.request(METADATA, 1, MetadataRequest(topics=None))
    assert struct.unpack_from(">i", last, 8) == (2**31 - 1,)
    assert struct.unpack_from(">i", next_, 8) == (0,)


@pytest.mark.parametrize("step", [None, 1, 3, 7])
def test_answers_come_out_in_order_however_the_bytes_are_cut(step: int | None):
    request = MetadataRequest(topics=None)
    connection = asked((METADATA, 12, request), (METADATA, 12, request), (METADATA, 12, request))
    data = b"".join(metadata_answer(number, f"cluster {number}") for number in range(3))
    answers = feed(connection, data, step)
    assert [answer.response.cluster_id for answer in answers] == ["cluster 0", "cluster 1", "cluster 2"]
    assert [answer.request.correlation_id for answer in answers] == [0, 1, 2]
    assert connection.open == 0
    assert len(connection.wanted()) == 4  # the size of the next frame


def test_record_sets_are_views_of_the_one_received_buffer():
    response = FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic="t", partitions=[FetchResponse.PartitionData(records=b"r" * 1_000_000)]
            )
        ]
    )
    connection = asked((FETCH, 12, FetchRequest()))
    [answer] = feed(connection, framed(encode_response(12, 0, response)))
    records = answer.response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert isinstance(records.obj, bytearray)
    assert len(records.obj) > 1_000_000


@pytest.mark.rule(16)
def test_an_answer_to_another_than_the_oldest_request_is_a_fault():
    request = MetadataRequest(topics=None)
    connection = asked((METADATA, 12, request), (METADATA, 12, request))
    with pytest.raises(ProtocolFault, match="oldest open request"):
        feed(connection, metadata_answer(1))


def test_an_answer_that_nobody_asked_for_is_a_fault():
    with pytest.raises(ProtocolFault, match="no request is open"):
        feed(Connection("me"), metadata_answer(0))


@pytest.mark.parametrize("size", [-1, 0, 3, 101, 2**31 - 1])
def test_a_frame_size_outside_of_the_limits_is_a_fault_before_anything_is_allocated(size: int):
    connection = Connection("me", max_frame=100)
    with pytest.raises(ProtocolFault, match="frame of"):
        feed(connection, struct.pack(">i", size))
    assert len(connection.wanted()) <= 4


@pytest.mark.parametrize("peer", [b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-x"])
def test_another_protocols_first_bytes_are_a_fault_with_a_hint(peer: bytes):
    connection = asked((VERSIONS, 4, ApiVersionsRequest()))
    with pytest.raises(ProtocolFault, match=r"this port speaks (HTTP|SSH)"):
        feed(connection, peer)


@pytest.mark.parametrize("record", [b"\x15\x03\x03\x00\x02\x02\x0a", b"\x16\x03\x01\x02\x00\x01"])
def test_a_tls_listeners_first_bytes_are_named(record: bytes):
    connection = asked((VERSIONS, 4, ApiVersionsRequest()))
    with pytest.raises(ProtocolFault, match=r"TLS listener: set security\.protocol"):
        feed(connection, record)


def test_an_answer_that_does_not_decode_is_a_fault():
    connection = asked((METADATA, 12, MetadataRequest(topics=None)))
    with pytest.raises(ProtocolFault, match="cannot be decoded"):
        feed(connection, framed(struct.pack(">i", 0) + b"\xff" * 20))


def test_a_field_that_the_version_cannot_carry_is_refused_and_leaves_nothing_open():
    connection = Connection("me")
    with pytest.raises(UnsupportedVersion, match="require_stable"):
        connection.request(API_BY_KEY[OffsetFetchRequest.KEY], 6, OffsetFetchRequest(require_stable=True))
    assert connection.open == 0


def test_an_unsupported_api_versions_request_is_answered_in_version_0():
    connection = asked((VERSIONS, 4, ApiVersionsRequest()))
    answer = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=3)]
    )
    [found] = feed(connection, framed(encode_response(0, 0, answer)))
    assert found.response == answer


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_an_answer_or_more_is_wanted_or_a_fault(data: bytes, step: int):
    connection = asked((VERSIONS, 4, ApiVersionsRequest()), (METADATA, 12, MetadataRequest(topics=None)))
    try:
        feed(connection, data, step)
    except ProtocolFault:
        return
    assert len(connection.wanted()) > 0


@given(st.data())
def test_a_mutated_answer_is_an_answer_or_a_fault(data: st.DataObject):
    good = bytearray(metadata_answer(0))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    connection = asked((METADATA, 12, MetadataRequest(topics=None)))
    try:
        feed(connection, bytes(good))
    except ProtocolFault:
        return


def test_a_frame_takes_memory_as_its_bytes_arrive():
    connection = Connection("me", max_frame=MAX_FETCH_FRAME)
    connection.request(FETCH, 12, FetchRequest())
    tracemalloc.start()
    assert feed(connection, struct.pack(">i", 2**31 - 1) + bytes(100)) == []
    feed(connection, bytes(40 << 20), 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


def test_a_frame_larger_than_the_first_buffer_is_whole():
    records = bytes(range(256)) * (40 << 12)
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(partition_index=0, high_watermark=1, records=records)
    answer = FetchResponse(responses=[topic(topic="t", partitions=[partition])])
    connection = Connection("me", max_frame=MAX_FETCH_FRAME)
    connection.request(FETCH, 12, FetchRequest())
    connection.request(FETCH, 12, FetchRequest())
    data = framed(encode_response(12, 0, answer)) + framed(encode_response(12, 1, FetchResponse()))
    first, second = feed(connection, data, 3 << 20)
    assert first.response.responses[0].partitions[0].records == records
    assert first.size == len(data) - second.size
