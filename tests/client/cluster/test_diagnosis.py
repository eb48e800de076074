"""Permanent conditions that look like passing ones: what proves them is found out when an operation is given up."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest

from kseg.client import AuthenticationFailed, BrokerUnavailable, Cluster, KafkaError, TopicPartition
from kseg.client.errors import ProtocolFault
from kseg.client.groups.offsets import committed_offsets
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kseg.client.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kseg.client.protocol.messages.produce import InitProducerIdRequest
from kseg.jobs.broker.process import EmbeddedKafka

FACTOR = "transaction.state.log.replication.factor"


def begin(cluster: Cluster, transactional_id: str = "kseg-orders") -> KafkaError:
    """The error of the first request of a transaction."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)

    def check(answer: Any) -> None:
        if answer.error_code:
            from kseg.client.errors import error_from_code

            raise error_from_code(answer.error_code, "InitProducerId", transactional_id=transactional_id)

    with pytest.raises(KafkaError) as caught:
        cluster.send(request, coordinator=("transaction", transactional_id), check=check)
    return caught.value


# -- coordinators


@pytest.fixture(scope="module")
def one_broker() -> Iterator[EmbeddedKafka]:
    """One broker with Kafka's own defaults for a cluster of three."""
    config = {FACTOR: "3", "offsets.topic.replication.factor": "3"}
    with EmbeddedKafka(heap="256m", light=True, config=config) as broker:
        yield broker


@pytest.mark.broker
def test_a_transaction_log_that_needs_more_brokers_than_there_are(one_broker: Any, connect: Any) -> None:
    error = begin(connect(one_broker.bootstrap_servers, default_api_timeout_ms=5000))
    assert error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (error.setting, error.retriable) == (FACTOR, False)
    assert "__transaction_state cannot be created, since it needs 3 brokers" in str(error)
    assert "the cluster has 1" in str(error)
    assert error.remedy is not None
    assert f"set {FACTOR} of the brokers to 1 or less" in error.remedy
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.setting, copy.remedy, copy.retriable) == (error.setting, error.remedy, False)


@pytest.mark.broker
def test_the_same_of_the_topic_with_groups_offsets(one_broker: Any, connect: Any) -> None:
    cluster = connect(one_broker.bootstrap_servers, default_api_timeout_ms=2500)
    with pytest.raises(KafkaError) as caught:
        committed_offsets(cluster, "orders", [TopicPartition("orders", 0)])
    assert (caught.value.setting, caught.value.retriable) == ("offsets.topic.replication.factor", False)


@pytest.mark.broker
def test_a_restart_of_two_of_three_brokers_passes(kafka3: Any, connect: Any) -> None:
    for node in (2, 3):
        kafka3.broker.kill(node)
    try:
        error = begin(connect(kafka3.bootstrap_servers, default_api_timeout_ms=4000), "restarted")
    finally:
        for node in (2, 3):
            kafka3.broker.restart(node)
    assert error.retriable, "Airflow repeats nothing else"
    assert error.setting is None


class TwoOfThree:
    """A scripted broker whose two companions are down, in a cluster without a transaction log."""

    def __init__(self, fake: Any, *, factor: str | None, registered: int | None) -> None:
        self.factor, self.registered = factor, registered
        fake.on(FindCoordinatorRequest, self.find_coordinator)
        fake.on(DescribeConfigsRequest, self.describe_configs)
        fake.on(DescribeClusterRequest, self.describe_cluster)
        if registered is None:  # a release before 4.0
            fake.ranges[DescribeClusterRequest.KEY] = (0, 1)

    def find_coordinator(self, seen: Any) -> FindCoordinatorResponse:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        entries = [
            FindCoordinatorResponse.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
            for key in seen.request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=entries)

    def describe_configs(self, seen: Any) -> DescribeConfigsResponse:
        kind = DescribeConfigsResponse.DescribeConfigsResult
        (asked,) = seen.request.resources
        name = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
        if self.factor is None:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return DescribeConfigsResponse(results=[kind(error_code=code, error_message="", configs=[], **name)])
        (key,) = asked.configuration_keys
        entry = kind.DescribeConfigsResourceResult(name=key, value=self.factor)
        return DescribeConfigsResponse(results=[kind(error_code=0, error_message=None, configs=[entry], **name)])

    def describe_cluster(self, seen: Any) -> DescribeClusterResponse:
        assert seen.request.include_fenced_brokers
        brokers = [
            DescribeClusterResponse.DescribeClusterBroker(broker_id=number, host="h", port=1, is_fenced=number > 1)
            for number in range(1, (self.registered or 1) + 1)
        ]
        return DescribeClusterResponse(cluster_id="c", brokers=brokers)


@pytest.mark.parametrize(
    ("factor", "registered", "setting", "told"),
    [
        ("3", 3, None, "only 1 of 3 are up"),
        ("3", 2, FACTOR, "the cluster has 2"),
        ("3", None, FACTOR, "the cluster has 1"),
        ("1", 1, None, "there is no coordinator"),
        (None, 1, None, "which could not be read"),
    ],
    ids=["others are down", "too few, and one is down", "an older release", "enough", "not allowed to read"],
)
def test_only_registered_brokers_fewer_than_the_setting_prove_it(
    fake: Any, connect: Any, factor: str | None, registered: int | None, setting: str | None, told: str
) -> None:
    TwoOfThree(fake, factor=factor, registered=registered)
    error = begin(connect(fake.bootstrap_servers, default_api_timeout_ms=600))
    assert (error.setting, error.retriable) == (setting, setting is None)
    assert told in str(error)


# -- advertised listeners


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int]], None]:
    """`resolver({name: errno})`: what the system's resolver says of these names."""
    real = socket.getaddrinfo

    def use(failing: dict[str, int]) -> None:
        def look_up(host: Any, *rest: Any, **more: Any) -> Any:
            if host in failing:
                raise socket.gaierror(failing[host], "scripted")
            return real(host, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return use


def leaders_error(connect: Any, fake: Any) -> KafkaError:
    fake.add_topic("orders", [1])
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=800)
    with pytest.raises(BrokerUnavailable) as caught:
        cluster.retry(
            lambda deadline: cluster.connection(cluster.leader(TopicPartition("orders", 0), deadline).broker, deadline)
        )
    return caught.value


@pytest.mark.parametrize(
    ("errno", "setting"),
    [(socket.EAI_NONAME, "advertised.listeners"), (socket.EAI_AGAIN, None)],
    ids=["unknown", "busy"],
)
def test_an_advertised_name_that_does_not_exist(
    fake: Any, connect: Any, resolver: Any, errno: int, setting: str | None
) -> None:
    resolver({"kafka-internal": errno})
    fake.brokers = [(1, "kafka-internal", 9092)]
    error = leaders_error(connect, fake)
    assert (error.setting, error.retriable) == (setting, setting is None)
    assert f"the address that was given, {fake.bootstrap_servers}, answers" in str(error)
    assert "what the brokers advertise, kafka-internal:9092 (broker 1)" in str(error)
    assert setting is None or "kafka-internal" in str(error.remedy)


def test_the_same_for_a_request_to_any_broker(fake: Any, connect: Any, resolver: Any) -> None:
    resolver({"kafka-internal": socket.EAI_NONAME, "kafka-other": socket.EAI_NONAME})
    fake.brokers = [(1, "kafka-internal", 9092), (2, "kafka-other", 9092)]
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=800)
    with pytest.raises(BrokerUnavailable, match="no broker that the cluster lists is available") as caught:
        cluster.finalized_features()
    assert caught.value.setting == "advertised.listeners"


def test_a_caller_with_little_time_gets_the_error_as_it_is(fake: Any, connect: Any, resolver: Any) -> None:
    """As a member of a group, which has to send its next heartbeat, and looks again soon."""
    resolver({"kafka-internal": socket.EAI_NONAME})
    fake.brokers = [(1, "kafka-internal", 9092)]
    cluster = connect(fake.bootstrap_servers)
    with pytest.raises(BrokerUnavailable) as caught:
        cluster.retry(cluster.any_connection, timeout=0.3)
    assert (caught.value.setting, caught.value.retriable) == (None, True)


def test_a_name_that_is_missing_while_another_brokers_exists_may_come_back(
    fake: Any, connect: Any, resolver: Any
) -> None:
    """As of a pod of Kubernetes that restarts."""
    resolver({"kafka-1": socket.EAI_NONAME})
    fake.brokers = [(1, "kafka-1", 9092), (2, "127.0.0.1", 9)]
    error = leaders_error(connect, fake)
    assert (error.setting, error.retriable) == (None, True)


@pytest.mark.parametrize(
    ("answers", "suspected"),
    [
        ({"broker-1": socket.EAI_NONAME, "broker-2": socket.EAI_NONAME}, True),
        ({"broker-1": socket.EAI_NONAME, "broker-2": socket.EAI_AGAIN}, False),
    ],
    ids=["unknown", "one may exist"],
)
def test_bootstrap_names_none_of_which_exists_are_suspected(
    connect: Any, resolver: Any, answers: dict[str, int], suspected: bool
) -> None:
    """They may be misspelled, or the names of pods of Kubernetes that start: a retry may help."""
    resolver(answers)
    cluster = connect("broker-1:9092,broker-2:9092", default_api_timeout_ms=800)
    with pytest.raises(BrokerUnavailable, match="cannot resolve broker-1: scripted") as caught:
        cluster.finalized_features()
    assert (caught.value.setting, caught.value.retriable) == (None, True)
    assert ("correct bootstrap.servers if its names are wrong" in str(caught.value.remedy)) == suspected


def test_an_advertised_address_that_nobody_listens_at_is_named(fake: Any, connect: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        fake.brokers = [(1, *unused.getsockname())]
        error = leaders_error(connect, fake)
    assert error.retriable
    assert "what the brokers advertise, 127.0.0.1:" in str(error)


# -- ports of other protocols


class Hasty(BaseHTTPRequestHandler):
    """Takes the first bytes for a request of HTTP's first version, and responds with a page."""

    def log_message(self, *_: object) -> None:
        pass


class Patient(BaseRequestHandler):
    """Waits for the end of a request's head, and checks it then."""

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (more := self.request.recv(4096)):
            head += more
        if head:
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.fixture(params=[Hasty, Patient])
def web_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A web server, which says at once or never that what it gets is not HTTP."""
    server = ThreadingTCPServer(("127.0.0.1", 0), request.param)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_web_servers_port_is_told_though_it_waits_silently(web_server: str, connect: Any, protocol: str) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "hunter2"}
    cluster = connect(web_server, security_protocol=protocol, **(login if protocol.startswith("SASL") else {}))
    with pytest.raises(ProtocolFault, match="this port speaks HTTP") as caught:
        cluster.metadata([])
    assert (caught.value.setting, caught.value.retriable) == ("bootstrap.servers", False)


def test_a_web_servers_port_is_told_to_a_client_that_encrypts(connect: Any, web_server: str) -> None:
    cluster = connect(web_server, security_protocol="SSL", socket_connection_setup_timeout_ms=2500)
    with pytest.raises(KafkaError) as caught:
        cluster.metadata([])
    assert not caught.value.retriable
    assert isinstance(caught.value, AuthenticationFailed) or caught.value.setting == "bootstrap.servers"


def test_a_silent_broker_is_asked_only_once_whether_it_speaks_http(fake: Any, fakes: Any, connect: Any) -> None:
    from kseg.client.protocol.messages.connection import ApiVersionsRequest

    fake.on(ApiVersionsRequest, lambda _: fakes.SILENT)
    cluster = connect(fake.bootstrap_servers, request_timeout_ms=2300, default_api_timeout_ms=5500)
    with pytest.raises(KafkaError) as caught:
        cluster.metadata([])
    assert caught.value.retriable
    assert fake.connections == len(fake.requests(ApiVersionsRequest)) + 1
