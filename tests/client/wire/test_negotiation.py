"""What a broker speaks: asked on each connection, first of all; assumed for one that never answers."""

from __future__ import annotations

import pickle
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster
from kseg.client.errors import BrokerUnavailable, ProtocolFault, RequestTimedOut, UnsupportedVersion
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.messages.fetch import FetchRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.registry import API_BY_KEY, API_BY_NAME
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.client.wire.negotiation import SilentBrokers

FALLBACK = {"broker.version.fallback": "0.9.0", "api.version.request.timeout.ms": "150"}
#: For brokers that do answer, however busy the machine is.
PATIENT = FALLBACK | {"api.version.request.timeout.ms": "20000"}


def open_to(broker: Any, properties: dict[str, str] | None = None, **more: Any) -> BrokerConnection:
    given = {"bootstrap.servers": broker.bootstrap_servers} | (properties or {})
    config = ClientConfig.from_properties(given, client_id="kseg-tests")
    return BrokerConnection.open(Endpoint(broker.host, broker.port), config, deadline=Deadline.after(30), **more)


def metadata(connection: BrokerConnection) -> Any:
    version = connection.version_of(MetadataRequest)
    return connection.call(MetadataRequest(topics=[]), version, deadline=Deadline.after(30))


class TestAsking:
    @pytest.mark.rule(61)
    def test_api_versions_is_the_first_request_of_each_connection(self, fake: Any):
        for _ in range(2):
            with open_to(fake) as connection:
                metadata(connection)
        order = [(seen.connection, type(seen.request)) for seen in fake.seen]
        assert order == [(n, kind) for n in (0, 1) for kind in (ApiVersionsRequest, MetadataRequest)]

    @pytest.mark.rule(68)
    def test_the_client_tells_its_name_and_version(self, fake: Any):
        open_to(fake).close()
        [seen] = fake.requests(ApiVersionsRequest)
        assert seen.request.client_software_name == "kafka-segment-etl"
        assert seen.request.client_software_version

    @pytest.mark.rule(64)
    def test_the_highest_version_of_both_is_spoken(self, fake: Any):
        fake.ranges[MetadataRequest.KEY] = (3, 7)
        with open_to(fake) as connection:
            metadata(connection)
        assert [seen.version for seen in fake.requests(MetadataRequest)] == [7]

    @pytest.mark.rule(66)
    def test_what_was_learnt_holds_for_one_connection(self, fake: Any):
        with open_to(fake) as before:
            fake.ranges[MetadataRequest.KEY] = (0, 2)
            with open_to(fake) as after:
                assert before.version_of(MetadataRequest) > 2
                assert after.version_of(MetadataRequest) == 2

    def test_api_keys_that_nobody_here_knows_are_ignored(self, fake: Any):
        fake.ranges[12_345] = (3, 9)
        with open_to(fake) as connection:
            assert connection.versions.ranges[12_345] == (3, 9)
            metadata(connection)

    @pytest.mark.rule(69)
    def test_features_are_the_finalized_levels_and_what_the_broker_could_do(self, fake: Any):
        fake.on(
            ApiVersionsRequest,
            lambda _: ApiVersionsResponse(
                api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=9)],
                supported_features=[
                    ApiVersionsResponse.SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2)
                ],
                finalized_features_epoch=7,
                finalized_features=[
                    ApiVersionsResponse.FinalizedFeatureKey(
                        name="transaction.version", max_version_level=1, min_version_level=1
                    )
                ],
            ),
        )
        with open_to(fake) as connection:
            assert connection.versions.finalized_features == {"transaction.version": 1}
            assert connection.versions.supported_features == {"transaction.version": (0, 2)}

    def test_features_without_an_epoch_are_not_known(self, fake: Any):
        answer = ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=9)],
            finalized_features_epoch=-1,
            finalized_features=[ApiVersionsResponse.FinalizedFeatureKey(name="transaction.version")],
        )
        fake.on(ApiVersionsRequest, lambda _: answer)
        with open_to(fake) as connection:
            assert connection.versions.finalized_features == {}


class TestRefused:
    def test_code_35_that_names_versions_leads_to_the_highest_named(self, fake: Any):
        fake.ranges[ApiVersionsRequest.KEY] = (0, 2)
        with open_to(fake) as connection:
            metadata(connection)
        assert [seen.version for seen in fake.requests(ApiVersionsRequest)] == [4, 2]

    def test_code_35_with_an_empty_list_leads_to_version_0(self, fake: Any, fakes: Any):
        def refusal(seen: Any) -> bytes:
            return fakes.framed(struct.pack(">ihi", seen.correlation_id, 35, 0))

        fake.ranges[ApiVersionsRequest.KEY] = (0, 0)
        fake.on(ApiVersionsRequest, refusal, fake.api_versions)
        with open_to(fake) as connection:
            metadata(connection)
        assert [seen.version for seen in fake.requests(ApiVersionsRequest)] == [4, 0]

    def test_a_broker_that_refuses_its_own_version_is_not_asked_forever(self, fake: Any, fakes: Any):
        def refusal(seen: Any) -> bytes:
            return fakes.framed(struct.pack(">ihi", seen.correlation_id, 35, 0))

        fake.ranges[ApiVersionsRequest.KEY] = (0, 0)
        fake.on(ApiVersionsRequest, refusal)
        with pytest.raises(UnsupportedVersion, match="ApiVersions"):
            open_to(fake)
        assert len(fake.requests(ApiVersionsRequest)) == 2

    def test_an_answer_that_names_no_api_is_a_fault(self, fake: Any):
        fake.on(ApiVersionsRequest, lambda _: ApiVersionsResponse())
        with pytest.raises(ProtocolFault, match="lists no API"):
            open_to(fake)


class TestSilence:
    """Brokers before 0.10: with `broker.version.fallback`, its table is believed after a short wait."""

    @pytest.mark.rule(63)
    def test_without_the_property_the_error_names_it(self, fake: Any, fakes: Any):
        fake.on(ApiVersionsRequest, lambda _: fakes.SILENT)
        with pytest.raises(
            RequestTimedOut, match=r"listener of a Kafka broker.*before 0\.10 .* set broker\.version\.fallback"
        ):
            open_to(fake, {"request.timeout.ms": "100"})

    @pytest.mark.rule(38, 63)
    @pytest.mark.parametrize("how", ["SILENT", "CLOSE"])
    def test_it_is_spoken_to_as_its_release_after_a_new_connection(self, fake: Any, fakes: Any, how: str):
        fake.on(ApiVersionsRequest, lambda _: getattr(fakes, how))
        began = time.monotonic()
        with open_to(fake, FALLBACK) as connection:
            assert time.monotonic() - began < 20
            assert connection.versions.assumed
            metadata(connection)
        [asked] = fake.requests(ApiVersionsRequest)
        [seen] = fake.requests(MetadataRequest)
        assert (seen.version, seen.connection) == (0, asked.connection + 1)

    def test_it_is_asked_once_and_remembered(self, fake: Any, fakes: Any, connect: Callable[..., Any]):
        fake.on(ApiVersionsRequest, lambda _: fakes.SILENT)
        cluster = connect(fake.bootstrap_servers, broker_version_fallback="0.9.0.1", api_version_request_timeout_ms=150)
        cluster.metadata()
        for _ in range(3):
            cluster.close()
            cluster.metadata(refresh=True)
        assert len(fake.requests(ApiVersionsRequest)) == 1
        assert {seen.version for seen in fake.requests(MetadataRequest)} == {0}

    def test_an_error_on_a_connection_without_an_answer_ends_the_belief(self, fake: Any, fakes: Any):
        fake.on(ApiVersionsRequest, lambda _: fakes.SILENT, fake.api_versions)
        fake.on(MetadataRequest, lambda _: fakes.CLOSE, fake.metadata)
        silent = SilentBrokers()
        with open_to(fake, FALLBACK, silent=silent) as connection:
            assert silent.has(fake.host, fake.port)
            with pytest.raises(BrokerUnavailable):
                metadata(connection)
        assert not silent.has(fake.host, fake.port)
        with open_to(fake, PATIENT, silent=silent) as connection:
            assert not connection.versions.assumed
            metadata(connection)

    def test_deadlines_too_short_to_wait_it_out_add_up(self, fake: Any, fakes: Any):
        """Heartbeats of a member with a session of 6 s never learnt that a broker is silent for 5 s."""
        fake.on(ApiVersionsRequest, lambda _: fakes.SILENT)
        given = {"bootstrap.servers": fake.bootstrap_servers, "api.version.request.timeout.ms": "1000"}
        config = ClientConfig.from_properties(FALLBACK | given, client_id="kseg-tests")
        silent = SilentBrokers()

        def attempt(seconds: float) -> BrokerConnection:
            end = Endpoint(fake.host, fake.port)
            return BrokerConnection.open(end, config, deadline=Deadline.after(seconds), silent=silent)

        with pytest.raises(RequestTimedOut):
            attempt(0.4)  # of which some goes into the connection
        assert 0 < silent.waited(fake.host, fake.port) < 1
        assert not silent.has(fake.host, fake.port)
        with attempt(60) as connection:
            assert connection.versions.assumed
        assert silent.waited(fake.host, fake.port) == 0

    def test_an_answer_ends_the_waiting_that_is_added_up(self, fake: Any):
        silent = SilentBrokers()
        silent.wait(fake.host, fake.port, 0.01)
        open_to(fake, PATIENT, silent=silent).close()
        assert silent.waited(fake.host, fake.port) == 0

    def test_a_cluster_beside_another_need_not_ask_again(self, fake: Any, fakes: Any, connect: Callable[..., Any]):
        fake.on(ApiVersionsRequest, lambda _: fakes.SILENT)
        cluster = connect(fake.bootstrap_servers, broker_version_fallback="0.9.0.1", api_version_request_timeout_ms=150)
        cluster.metadata()
        with Cluster(cluster.config, beside=cluster) as other:
            other.metadata()
        assert len(fake.requests(ApiVersionsRequest)) == 1

    def test_the_belief_ends_after_a_while(self):
        for seconds, believed in ((60.0, True), (0.05, False)):
            silent = SilentBrokers(seconds=seconds)
            silent.add("b", 1)
            time.sleep(0.06)
            assert silent.has("b", 1) is believed
            assert not silent.has("b", 2)

    def test_a_broker_that_answers_is_believed_whatever_the_property_says(self, fake: Any):
        with open_to(fake, PATIENT) as connection:
            assert not connection.versions.assumed
            assert connection.version_of(MetadataRequest) == API_BY_KEY[MetadataRequest.KEY].versions.highest

    def test_another_failure_is_no_silence(self, fake: Any):
        fake.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ProtocolFault):
            open_to(fake, PATIENT)


@pytest.mark.rule(71)
def test_no_version_is_sent_that_was_not_negotiated(fake: Any):
    fake.ranges[MetadataRequest.KEY] = (3, 7)
    del fake.ranges[FetchRequest.KEY]
    with open_to(fake) as connection:
        for request, version in ((MetadataRequest(), 8), (MetadataRequest(), 2), (FetchRequest(), 4)):
            with pytest.raises(UnsupportedVersion, match="not supported by this broker") as caught:
                connection.call(request, version, deadline=Deadline.after(5))
            assert pickle.loads(pickle.dumps(caught.value)).broker == connection.label
        metadata(connection)  # the connection is none the worse for it
    assert [seen.version for seen in fake.requests(MetadataRequest)] == [7]


def test_a_failed_negotiation_sent_nothing_of_the_callers(fake: Any, fakes: Any):
    fake.on(ApiVersionsRequest, lambda _: fakes.CLOSE)
    with pytest.raises(BrokerUnavailable) as caught:
        open_to(fake)
    assert caught.value.sent is False


def test_a_live_broker_tells_its_versions_and_features(kafka: Any):
    host, port = kafka.bootstrap_servers.split(":")
    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="kseg-tests")
    with BrokerConnection.open(Endpoint(host, int(port)), config, deadline=Deadline.after(10)) as connection:
        assert not connection.versions.assumed
        fetch = API_BY_NAME["Fetch"]
        assert connection.versions.ranges[fetch.key][1] >= 16
        assert connection.versions.supported_features["transaction.version"] == (0, 2)
        assert connection.versions.finalized_features["transaction.version"] == 2
