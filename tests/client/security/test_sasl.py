"""SASL with a real broker: who we are, and what a refusal says."""

from __future__ import annotations

import base64
import logging
import time
from typing import Any

import pytest

from kseg.client import AuthenticationFailed, BrokerUnavailable, ClientConfig, Cluster, KafkaError
from kseg.client.protocol.messages.connection import ApiVersionsRequest, SaslHandshakeRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.security import CreateDelegationTokenRequest
from kseg.client.retry import Deadline
from kseg.client.security import authenticate
from kseg.client.wire.trace import LOGGER, TRAFFIC

pytestmark = pytest.mark.broker


def config(properties: dict[str, str]) -> ClientConfig:
    return ClientConfig.from_properties(properties, client_id="sasl")


def principal(properties: dict[str, str]) -> str:
    """Whom the broker takes us for: the owner of a delegation token that we ask for."""
    with Cluster(config(properties)) as cluster:
        answer = cluster.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
        assert answer.error_code == 0
        return f"{answer.principal_type}:{answer.principal_name}"


def refusal(properties: dict[str, str]) -> KafkaError:
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught, Cluster(config(properties)) as cluster:
        cluster.metadata([])
    assert time.monotonic() - started < 50  # by default, tries go on for a minute
    assert isinstance(caught.value, AuthenticationFailed)
    assert not caught.value.retriable
    assert caught.value.broker
    assert "hunter2" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"
    return caught.value


def plain(kafka: Any, listener: str, password: str | None = None) -> dict[str, str]:
    user = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": password or kafka.alice}
    return kafka.properties(listener) | user


@pytest.mark.rule(76, 78, 79, 293)
@pytest.mark.parametrize("listener", ["PLAINSASL", "SECURE"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_broker_knows_who_logged_in(secure_kafka: Any, listener: str, mechanism: str):
    if (listener, mechanism) == ("PLAINSASL", "SCRAM-SHA-512"):
        listener = "SHORT"
    properties = secure_kafka.properties(listener) | {"sasl.mechanism": mechanism}
    if mechanism == "PLAIN":
        properties = plain(secure_kafka, listener)
    assert principal(properties) == ("User:alice" if mechanism == "PLAIN" else "User:bob")


@pytest.mark.rule(82)
@pytest.mark.parametrize("listener", ["MTLS", "MTLS12"])
def test_a_client_certificate_is_an_identity(secure_kafka: Any, listener: str):
    assert principal(secure_kafka.properties(listener)) == "User:CN=client"


@pytest.mark.rule(78)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(secure_kafka: Any, mechanism: str):
    wrong = {"sasl.mechanism": mechanism, "sasl.password": "wrong-hunter2"}
    user = {"sasl.username": "alice" if mechanism == "PLAIN" else "bob"}
    error = refusal(secure_kafka.properties("SECURE") | wrong | user)
    assert f"SASL {mechanism}: authentication failed" in str(error)
    assert error.code is not None
    assert error.code.name == "SASL_AUTHENTICATION_FAILED"


def test_a_user_who_is_not_known(secure_kafka: Any):
    refusal(secure_kafka.properties("SECURE") | {"sasl.username": "nobody"})


@pytest.mark.rule(73, 85)
def test_a_mechanism_that_is_not_offered_names_those_that_are(secure_kafka: Any):
    error = refusal(secure_kafka.properties("PLAINSASL") | {"sasl.mechanism": "SCRAM-SHA-512"})
    assert "it offers PLAIN, SCRAM-SHA-256" in str(error)
    assert "sasl.mechanism" in str(error)


def test_a_listener_without_sasl_says_so(secure_kafka: Any):
    for listener, tls in (("PLAINTEXT", {}), ("TLS", {"security.protocol": "SASL_SSL"})):
        servers = secure_kafka.bootstrap_servers if listener == "PLAINTEXT" else secure_kafka.servers("TLS")
        base = secure_kafka.properties("SECURE" if tls else "PLAINSASL")
        assert "this listener has no SASL" in str(refusal(base | tls | {"bootstrap.servers": servers}))


@pytest.mark.parametrize(("listener", "protocol"), [("PLAINSASL", "PLAINTEXT"), ("SECURE", "SSL")])
def test_a_listener_with_sasl_says_so_where_none_is_used(secure_kafka: Any, listener: str, protocol: str):
    given = {name: value for name, value in secure_kafka.properties(listener).items() if not name.startswith("sasl.")}
    error = refusal(given | {"security.protocol": protocol})
    better = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    assert f"requires SASL: set security.protocol to {better}, and sasl.mechanism to one of PLAIN, SCRAM" in str(error)


@pytest.mark.rule(35, 62, 72)
def test_the_order_on_the_wire_is_the_same_after_a_reconnect(secure_kafka: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, LOGGER.name)
    with Cluster(config(secure_kafka.properties("SECURE"))) as cluster:
        for _ in range(2):
            cluster.metadata([], refresh=True)
            cluster.close()
    sent = [record.getMessage().split()[3 if "(" not in record.getMessage() else 4] for record in caplog.records]
    told = [name for name, record in zip(sent, caplog.records, strict=True) if "->" in record.getMessage()]
    login = ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "SaslAuthenticate"]
    assert told[:5] == [*login, "Metadata"]
    assert told[5:10] == [*login, "Metadata"]
    assert secure_kafka.bob not in caplog.text


@pytest.mark.rule(84)
def test_a_delegation_token_logs_in_as_its_owner(secure_kafka: Any):
    with Cluster(config(secure_kafka.properties("SECURE"))) as cluster:
        token = cluster.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
    assert token.error_code == 0
    hmac = base64.b64encode(token.hmac).decode()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{token.token_id}" password="{hmac}" tokenauth="true";'
    properties = secure_kafka.properties("SECURE")
    del properties["sasl.username"], properties["sasl.password"]
    properties["sasl.jaas.config"] = jaas
    until = time.monotonic() + 60
    while True:  # the token reaches the broker through the controller's log
        try:
            with Cluster(config(properties)) as cluster:
                assert list(cluster.metadata([]).brokers) == [1]
                # Who came by a token may not ask for another: so the broker knows that we did.
                answer = cluster.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
                assert answer.error_code == 64
            break
        except AuthenticationFailed:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    wrong = properties | {"sasl.jaas.config": jaas.replace(hmac[:8], "hunter2=")}
    refusal(wrong)


class TestSessions:
    """KIP-368: SHORT's sessions end after 3 s, and the broker closes a connection that is used afterwards."""

    def tally(self, secure_kafka: Any, api: type) -> int:
        at = secure_kafka.broker.servers_of("SHORT")
        return sum(
            tally.requests
            for (broker, name, _), tally in TRAFFIC.snapshot().items()
            if at.rpartition(":")[2] in broker and name == api.__name__.removesuffix("Request")
        )

    @pytest.mark.rule(83, 312)
    @pytest.mark.usefixtures("early_logins")
    def test_a_busy_connection_logs_in_again_and_stays(self, secure_kafka: Any):
        with Cluster(config(secure_kafka.properties("SHORT"))) as cluster:
            broker = next(iter(cluster.metadata([]).brokers.values()))
            before = {api: self.tally(secure_kafka, api) for api in (SaslHandshakeRequest, ApiVersionsRequest)}
            until = time.monotonic() + 7
            connection = cluster.open_connection(broker, Deadline.after(60))
            while time.monotonic() < until:
                for _ in range(3):  # pipelined: answers are still to come when the login is due
                    connection.send(MetadataRequest(topics=[]), 12, deadline=Deadline.after(30))
                time.sleep(0.2)
                connection.send(MetadataRequest(topics=[]), 9, deadline=Deadline.after(30))
                for _ in range(4):
                    assert connection.receive(deadline=Deadline.after(30)).brokers
                assert connection.in_flight == 0
        after = {api: self.tally(secure_kafka, api) for api in (SaslHandshakeRequest, ApiVersionsRequest)}
        assert after[ApiVersionsRequest] - before[ApiVersionsRequest] == 1, "one connection, never opened anew"
        assert after[SaslHandshakeRequest] - before[SaslHandshakeRequest] >= 3

    @pytest.mark.rule(83)
    def test_an_idle_connection_logs_in_before_it_is_used_again(self, secure_kafka: Any):
        with Cluster(config(secure_kafka.properties("SHORT"))) as cluster:
            cluster.metadata([])
            cluster.metadata([], refresh=True)  # over the broker's own connection, not the bootstrap server's
            before = self.tally(secure_kafka, ApiVersionsRequest)
            time.sleep(3.5)
            assert cluster.metadata([], refresh=True).brokers
            assert self.tally(secure_kafka, ApiVersionsRequest) == before


@pytest.mark.parametrize("slow", [0.0, 0.6], ids=["", "the first one slow to begin"])
def test_sessions_shorter_than_a_broker_takes_logins_are_waited_for(
    secure_kafka: Any, monkeypatch: pytest.MonkeyPatch, slow: float
):
    """A broker takes one login a second on a connection, and closes at another one if the session is over by then.

    It counts from the handshake that it read, which may come long after we began: a token had to be fetched first.
    """
    begin, pauses = authenticate._started, [slow]

    def started(*args: Any) -> Any:
        time.sleep(pauses.pop() if pauses else 0)
        return begin(*args)

    with Cluster(config(secure_kafka.properties("SHORT"))) as cluster:
        broker = next(iter(cluster.metadata([]).brokers.values()))
        connection = cluster.open_connection(broker, Deadline.after(60))
        monkeypatch.setattr(authenticate, "_started", started)
        began = time.monotonic()
        for _ in range(3):
            connection._login_ends = 0.0  # as if the session had lived for a moment
            assert connection.call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(10)).brokers
        assert time.monotonic() - began > 2


def test_without_the_login_the_broker_ends_the_session(secure_kafka: Any, monkeypatch: pytest.MonkeyPatch):
    """The control for the two tests above: it is the repeated login that keeps the connection."""
    monkeypatch.setattr("kseg.client.wire.broker.BrokerConnection._log_in_again", lambda self, deadline: None)
    with Cluster(config(secure_kafka.properties("SHORT"))) as cluster:
        broker = next(iter(cluster.metadata([]).brokers.values()))
        connection = cluster.open_connection(broker, Deadline.after(60))
        time.sleep(3.5)
        with pytest.raises(BrokerUnavailable, match="closed the connection"):
            connection.call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(30))


def test_a_login_that_fails_the_second_time_closes_the_connection(secure_kafka: Any, monkeypatch: pytest.MonkeyPatch):
    with Cluster(config(secure_kafka.properties("SHORT"))) as cluster:
        broker = next(iter(cluster.metadata([]).brokers.values()))
        connection = cluster.open_connection(broker, Deadline.after(60))
        connection._login_ends = 0.0
        wrong = config(secure_kafka.properties("SHORT") | {"sasl.password": "wrong"})
        monkeypatch.setattr(connection, "_config", wrong)
        with pytest.raises(AuthenticationFailed) as caught:
            connection.call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(30))
        assert connection.closed
        assert not getattr(caught.value, "sent", False)
