"""One connection with negotiated versions, against a scripted broker on a real socket."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from kseg.client import ClientConfig
from kseg.client.errors import BrokerUnavailable, ProtocolFault, RequestTimedOut, UnsupportedVersion
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.messages.fetch import FetchRequest
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.transactions import EndTxnRequest
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint


def open_to(broker: Any, *, client_id: str = "kseg-orders", **properties: object) -> BrokerConnection:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap_servers} | given, client_id=client_id)
    return BrokerConnection.open(Endpoint(broker.host, broker.port), config, deadline=soon())


def soon() -> Deadline:
    return Deadline.after(30)


def metadata(connection: BrokerConnection) -> Any:
    version = connection.version_of(MetadataRequest)
    return connection.call(MetadataRequest(topics=[]), version, deadline=soon())


@pytest.mark.rule(17)
def test_every_request_carries_the_client_id(fake: Any):
    with open_to(fake) as connection:
        metadata(connection)
    assert {seen.client_id for seen in fake.seen} == {"kseg-orders"}


@pytest.mark.rule(68)
def test_the_client_introduces_itself(fake: Any):
    open_to(fake).close()
    [seen] = fake.requests(ApiVersionsRequest)
    assert seen.request.client_software_name == "kafka-segment-etl"
    assert seen.request.client_software_version


def test_the_highest_common_version_is_spoken(fake: Any):
    fake.ranges[MetadataRequest.KEY] = (5, 11)
    with open_to(fake) as connection:
        metadata(connection)
    assert [seen.version for seen in fake.requests(MetadataRequest)] == [11]


@pytest.mark.rule(66)
def test_versions_hold_for_their_connection_only(fake: Any):
    with open_to(fake) as first:
        fake.ranges[MetadataRequest.KEY] = (5, 9)  # the broker behind the address is an older one from now on
        with open_to(fake) as second:
            assert first.version_of(MetadataRequest) == 13
            assert second.version_of(MetadataRequest) == 9


def test_an_unsupported_api_versions_request_is_repeated_in_the_version_that_the_answer_names(fake: Any):
    fake.ranges[ApiVersionsRequest.KEY] = (0, 2)
    with open_to(fake) as connection:
        metadata(connection)
    assert [seen.version for seen in fake.requests(ApiVersionsRequest)] == [4, 2]


def test_an_old_brokers_bare_refusal_leads_to_version_0(fake: Any, fakes: Any):
    def bare_refusal(seen: Any) -> bytes:
        return fakes.framed(struct.pack(">ihi", seen.correlation_id, 35, 0))

    fake.ranges[ApiVersionsRequest.KEY] = (0, 0)
    fake.on(ApiVersionsRequest, bare_refusal, fake.api_versions)
    with open_to(fake) as connection:
        metadata(connection)
        assert connection.versions.finalized_features == {}
    assert [seen.version for seen in fake.requests(ApiVersionsRequest)] == [4, 0]


def test_a_broker_without_a_common_version_is_told_apart(fake: Any):
    fake.ranges[FetchRequest.KEY] = (19, 22)
    del fake.ranges[EndTxnRequest.KEY]
    with open_to(fake) as connection:
        with pytest.raises(UnsupportedVersion, match="Fetch"):
            connection.version_of(FetchRequest)
        with pytest.raises(UnsupportedVersion, match="EndTxn"):
            connection.version_of(EndTxnRequest)
        assert not connection.offers(EndTxnRequest)


def test_finalized_features_cap_the_transaction_apis(fake: Any):
    with open_to(fake) as connection:
        assert connection.version_of(EndTxnRequest) == 4
    fake.features = {"transaction.version": 2}
    with open_to(fake) as connection:
        assert connection.version_of(EndTxnRequest) == 5
        assert connection.version_of(EndTxnRequest, finalized_features={"transaction.version": 1}) == 4


def test_topics_are_named_by_id_only_where_ids_are_known(fake: Any):
    with open_to(fake) as connection:
        assert connection.version_of(FetchRequest) == 12
        assert connection.version_of(FetchRequest, topic_ids_known=True) == 18


@pytest.mark.rule(11, 12)
def test_requests_are_pipelined_and_answered_in_order(fake: Any):
    fake.on(ListGroupsRequest, lambda seen: ListGroupsResponse(error_code=seen.correlation_id))
    with open_to(fake) as connection:
        for _ in range(3):
            connection.send(ListGroupsRequest(), 5, deadline=soon())
        assert connection.in_flight == 3
        codes = [connection.receive(deadline=soon()).error_code for _ in range(3)]
    assert codes == [1, 2, 3]  # 0 was ApiVersions


@pytest.mark.rule(16)
def test_a_wrong_correlation_id_closes_the_connection(fake: Any, fakes: Any):
    fake.on(MetadataRequest, lambda seen: fakes.framed(struct.pack(">i", seen.correlation_id + 1)))
    connection = open_to(fake)
    with pytest.raises(ProtocolFault):
        metadata(connection)
    assert connection.closed
    with pytest.raises(BrokerUnavailable, match="closed"):
        metadata(connection)


@pytest.mark.parametrize(
    "garbage", [b"\x00\x00\x00\x09garbage!!", b"HTTP/1.1 400", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"]
)
def test_garbage_and_oversized_frames_close_the_connection(fake: Any, garbage: bytes):
    fake.on(MetadataRequest, lambda _: garbage)
    connection = open_to(fake)
    with pytest.raises(ProtocolFault) as caught:
        metadata(connection)
    assert connection.closed
    assert caught.value.broker == fake.bootstrap_servers


def test_garbage_instead_of_versions_is_a_fault(fake: Any):
    fake.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ProtocolFault, match="speaks HTTP"):
        open_to(fake)


def test_a_silent_broker_times_out_and_loses_its_connection(fake: Any, fakes: Any):
    fake.on(MetadataRequest, lambda _: fakes.SILENT)
    connection = open_to(fake, request_timeout_ms=1500)
    started = time.monotonic()
    with pytest.raises(RequestTimedOut):
        metadata(connection)
    assert time.monotonic() - started < 20
    assert connection.closed  # an answer that comes late must not be taken for the next one's


def test_a_frame_that_stops_in_the_middle_times_out(fake: Any):
    fake.on(MetadataRequest, lambda _: b"\x00\x00\x00\x64half")
    connection = open_to(fake, request_timeout_ms=1500)
    with pytest.raises(RequestTimedOut):
        metadata(connection)
    assert connection.closed


def test_a_peer_that_closes_within_an_answer_is_unavailable(fake: Any, fakes: Any):
    fake.on(MetadataRequest, lambda _: fakes.CLOSE)
    connection = open_to(fake)
    with pytest.raises(BrokerUnavailable, match="closed the connection"):
        metadata(connection)


@pytest.mark.rule(265)
def test_throttling_is_honoured(fake: Any):
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(throttle_time_ms=300), lambda _: ListGroupsResponse())
    with open_to(fake) as connection:
        started = time.monotonic()
        connection.call(ListGroupsRequest(), 5, deadline=soon())
        assert connection.muted_for <= 0.3
        connection.call(ListGroupsRequest(), 5, deadline=soon())
        assert time.monotonic() - started >= 0.3


def test_an_old_versions_throttle_time_has_been_waited_for_already(fake: Any):
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(throttle_time_ms=5000))
    with open_to(fake) as connection:
        connection.call(ListGroupsRequest(), 1, deadline=soon())
        assert connection.muted_for == 0


def test_a_throttle_beyond_the_deadline_is_told_at_once(fake: Any):
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(throttle_time_ms=60_000))
    with open_to(fake) as connection:
        connection.call(ListGroupsRequest(), 5, deadline=soon())
        with pytest.raises(RequestTimedOut, match="throttles"):
            connection.call(ListGroupsRequest(), 5, deadline=soon())
        assert not connection.closed


@pytest.mark.rule(9)
def test_an_idle_connection_is_not_used_any_more(fake: Any):
    with open_to(fake, connections_max_idle_ms=1500) as connection:
        assert connection.usable
        time.sleep(1.6)
        assert not connection.usable
        assert not connection.closed


def test_an_api_versions_error_is_raised(fake: Any):
    fake.on(ApiVersionsRequest, lambda _: ApiVersionsResponse(error_code=58))
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED"):
        open_to(fake)
