"""Sizes, deadlines, slow and broken peers, in every phase of a connection: a typed error, and never a hang."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from kseg.client import BrokerUnavailable, ClientConfig, KafkaError, ProtocolFault, RequestTimedOut
from kseg.client.errors import RequestTooLarge
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.registry import API_BY_KEY, encode_response
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.client.wire.connection import MAX_REQUEST

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=api.versions.lowest, max_version=api.versions.highest)
        for key, api in API_BY_KEY.items()
    ]
)


def soon(seconds: float = 10) -> Deadline:
    return Deadline.after(seconds)


def open_to(port: int, **properties: object) -> BrokerConnection:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    config = ClientConfig.from_properties({"bootstrap.servers": f"127.0.0.1:{port}"} | given, client_id="limits")
    return BrokerConnection.open(Endpoint("127.0.0.1", port), config, deadline=soon())


def list_groups(connection: BrokerConnection) -> ListGroupsResponse:
    return connection.call(ListGroupsRequest(), 4, deadline=soon())


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[socket.socket, bytes], bool]], int]]:
    """`peer(answer)` listens, and gives its port. `answer(stream, frame)` says whether the connection goes on."""
    listeners: list[socket.socket] = []

    def listen(answer: Callable[[socket.socket, bytes], bool]) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        listeners.append(server)

        def serve() -> None:
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return  # closed
                # A client that leaves in the middle of something ends its own connection alone.
                with suppress(OSError, struct.error), stream, stream.makefile("rb") as incoming:
                    while size := incoming.read(4):
                        if not answer(stream, incoming.read(struct.unpack(">i", size)[0])):
                            break

        threading.Thread(target=serve, daemon=True).start()
        return int(server.getsockname()[1])

    yield listen
    for server in listeners:
        server.close()


def versions(frame: bytes) -> bytes | None:
    """The answer to ApiVersions, None to anything else."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    if key != ApiVersionsRequest.KEY:
        return None
    body = encode_response(version, correlation_id, VERSIONS)
    return struct.pack(">i", len(body)) + body


def groups(frame: bytes) -> bytes:
    _, version, correlation_id = struct.unpack_from(">hhi", frame)
    body = encode_response(version, correlation_id, ListGroupsResponse(throttle_time_ms=0))
    return struct.pack(">i", len(body)) + body


# -- our requests


@pytest.mark.rule(15)
def test_a_request_above_what_brokers_take_is_refused_before_it_is_sent(fake: Any, connect: Any):
    cluster = connect(fake.bootstrap_servers)
    connection = cluster.retry(cluster.any_connection)
    records = b"x" * (MAX_REQUEST + 1)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    with pytest.raises(RequestTooLarge, match=r"Produce v9 of 1048\d+ bytes.*socket\.request\.max\.bytes") as caught:
        connection.send(ProduceRequest(acks=-1, topic_data=[topic]), 9, deadline=soon())
    assert not caught.value.retriable
    assert not fake.requests(ProduceRequest)
    assert connection.in_flight == 0
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    list_groups(connection)  # and the connection is as good as before


@pytest.mark.parametrize("when", ["while it is sent", "instead of an answer"])
def test_a_large_request_that_ends_the_connection_tells_its_size_and_the_remedy(peer: Any, when: str):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        known = versions(frame)
        if known is not None:
            stream.sendall(known)
        return known is not None

    connection = open_to(peer(answer))
    size = 30_000_000 if when == "while it is sent" else 100_000
    records = b"x" * size
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    with pytest.raises(BrokerUnavailable) as caught:
        connection.call(request, 9, deadline=soon())
    text = str(caught.value)
    assert f"Produce v9 ({size // 10_000}" in text
    assert "socket.request.max.bytes" in text
    assert "send less at once" in text


def test_a_small_request_that_ends_the_connection_is_not_blamed(peer: Any):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        stream.sendall(versions(frame) or b"")
        return struct.unpack_from(">h", frame)[0] == ApiVersionsRequest.KEY

    with pytest.raises(BrokerUnavailable, match=r"ListGroups v4 \(\d+ bytes\)") as caught:
        list_groups(open_to(peer(answer)))
    assert "socket.request.max.bytes" not in str(caught.value)


# -- what comes back


def test_answers_that_come_byte_by_byte_are_answers(peer: Any):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        for byte in versions(frame) or groups(frame):
            stream.sendall(bytes([byte]))
        return True

    with open_to(peer(answer)) as connection:
        assert list_groups(connection).groups == []
        assert list_groups(connection).groups == []


def test_two_answers_in_one_packet_are_two_answers(peer: Any):
    held: list[bytes] = []

    def answer(stream: socket.socket, frame: bytes) -> bool:
        known = versions(frame)
        if known is not None:
            stream.sendall(known)
        else:
            held.append(groups(frame))
            if len(held) == 3:
                stream.sendall(b"".join(held))
        return True

    with open_to(peer(answer)) as connection:
        for _ in range(3):
            connection.send(ListGroupsRequest(), 4, deadline=soon())
        assert [connection.receive(deadline=soon()).error_code for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("keep", range(0, 14, 2))
def test_a_body_that_is_cut_short_is_a_fault(peer: Any, keep: int):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        whole = versions(frame)
        if whole is None:
            body = groups(frame)[4 : 4 + keep]
            whole = struct.pack(">i", len(body)) + body
        stream.sendall(whole)
        return True

    connection = open_to(peer(answer))
    with pytest.raises(ProtocolFault) as caught:
        list_groups(connection)
    assert connection.closed
    assert caught.value.broker is not None
    assert not caught.value.retriable


@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1, 0x48545450])
def test_a_size_that_is_none_is_a_fault_and_nothing_is_allocated(peer: Any, size: int):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        stream.sendall(versions(frame) or struct.pack(">i", size))
        return True

    with pytest.raises(ProtocolFault, match="frame of"):
        list_groups(open_to(peer(answer)))


def test_an_answer_to_another_request_is_a_fault(peer: Any):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        stream.sendall(versions(frame) or struct.pack(">ii", 4, 4711))
        return True

    with pytest.raises(ProtocolFault, match=r"4711, while 1 .ListGroups v4. is the oldest"):
        list_groups(open_to(peer(answer)))


@pytest.mark.rule(13)
def test_random_bytes_are_never_waited_for_beyond_the_deadline(peer: Any, scale: Callable[[int, int], int]):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        stream.sendall(versions(frame) or os.urandom(64))
        return True

    port = peer(answer)
    for _ in range(scale(20, 300)):
        started = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            list_groups(open_to(port, request_timeout_ms=500))
        assert isinstance(caught.value, ProtocolFault | RequestTimedOut)
        assert time.monotonic() - started < 20


# -- deadlines and phases


@pytest.mark.parametrize("drip", [0.0, 0.03])
def test_a_peer_that_never_ends_its_answer_is_left_at_the_deadline(peer: Any, drip: float):
    """Each byte is progress, and none of them is an answer: the deadline is the request's, not the byte's."""

    def answer(stream: socket.socket, frame: bytes) -> bool:
        known = versions(frame)
        if known is not None:
            stream.sendall(known)
            return True
        stream.sendall(struct.pack(">i", 1000))
        for _ in range(1000 if drip else 0):
            stream.sendall(b"x")
            time.sleep(drip)
        return True

    connection = open_to(peer(answer), request_timeout_ms=1000)
    started = time.monotonic()
    with pytest.raises(RequestTimedOut):
        list_groups(connection)
    assert 0.9 < time.monotonic() - started < 15
    assert connection.closed


def test_a_peer_that_closes_its_side_after_half_an_answer_has_broken_the_connection(peer: Any):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        known = versions(frame)
        stream.sendall(known or groups(frame)[:7])
        if known is None:
            stream.shutdown(socket.SHUT_WR)
        return True

    with pytest.raises(BrokerUnavailable, match="closed the connection") as caught:
        list_groups(open_to(peer(answer)))
    assert caught.value.sent
    assert caught.value.retriable


@pytest.mark.parametrize("phase", ["before it speaks", "in the middle of its versions"])
def test_a_peer_that_goes_away_while_it_is_connected_to_has_got_no_request(peer: Any, phase: str):
    def answer(stream: socket.socket, frame: bytes) -> bool:
        if phase == "in the middle of its versions":
            stream.sendall((versions(frame) or b"")[:9])
        return False

    with pytest.raises(BrokerUnavailable) as caught:
        open_to(peer(answer))
    assert not caught.value.sent
    assert caught.value.retriable


def test_nobody_listening_is_unavailable():
    with socket.socket() as held:  # or somebody else listens there meanwhile
        held.bind(("127.0.0.1", 0))
        with pytest.raises(BrokerUnavailable, match="cannot connect") as caught:
            open_to(held.getsockname()[1])
    assert not caught.value.sent


# -- no answer at all


def test_a_produce_without_acks_is_done_when_it_is_written_and_the_next_answer_is_the_next_requests(
    fake: Any, connect: Any
):
    fake.on(ProduceRequest, lambda _: None)
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    cluster = connect(fake.bootstrap_servers)
    connection = cluster.retry(cluster.any_connection)
    for _ in range(3):
        assert connection.call(ProduceRequest(acks=0), 9, deadline=soon()) is None
    assert connection.in_flight == 0
    assert list_groups(connection).error_code == 0
    assert connection.call(MetadataRequest(topics=[]), 12, deadline=soon()).cluster_id == "fake"
    assert len(fake.requests(ProduceRequest)) == 3


def test_a_broker_that_closes_after_a_produce_without_acks_is_noticed_with_the_next_request(
    fake: Any, fakes: Any, connect: Any
):
    fake.on(ProduceRequest, lambda _: fakes.CLOSE)
    cluster = connect(fake.bootstrap_servers)
    connection = cluster.retry(cluster.any_connection)
    connection.call(ProduceRequest(acks=0), 9, deadline=soon())
    with pytest.raises(BrokerUnavailable):
        list_groups(connection)
    assert cluster.metadata([], refresh=True).cluster_id == "fake"
