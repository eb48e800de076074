"""SASL with live brokers of old releases: bare tokens after handshake v0, and the first SaslAuthenticate."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator

import pytest

from kseg.client import AuthenticationFailed, ClientConfig, Cluster
from kseg.client.wire.trace import TRAFFIC
from kseg.jobs.broker.errors import JarsUnavailable
from releases import OtherKafka

pytestmark = pytest.mark.broker

ALICE, BOB = "alice-hunter2", "bob-hunter2"
JAAS = f"""KafkaServer {{
  org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{ALICE}";
  org.apache.kafka.common.security.scram.ScramLoginModule required;
}};
"""


def scram_user(password: str) -> bytes:
    """A user as these releases keep it in ZooKeeper."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in (b"salt", stored, server))
    credential = f"salt={salt},stored_key={stored_key},server_key={server_key},iterations=4096"
    return json.dumps({"version": 1, "config": {"SCRAM-SHA-256": credential}}).encode()


@pytest.fixture(scope="module", params=["0.10.2.2", "1.1.1"])
def old_kafka(request: pytest.FixtureRequest) -> Iterator[OtherKafka]:
    kafka = OtherKafka(request.param, sasl=JAAS, config={"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"})
    try:
        kafka.start()
    except JarsUnavailable as error:
        pytest.skip(str(error))
    with kafka.zookeeper() as zookeeper:
        zookeeper.create("/config/users", b"")  # which is there already in later releases
        zookeeper.create("/config/users/bob", scram_user(BOB))
        zookeeper.create("/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"users/bob"}')
    yield kafka
    kafka.stop()


def log_in(kafka: OtherKafka, mechanism: str, user: str, password: str, servers: str = "") -> list[int]:
    properties = {
        "bootstrap.servers": servers or kafka.sasl_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    with Cluster(ClientConfig.from_properties(properties, client_id="old")) as cluster:
        return list(cluster.metadata([]).brokers)


@pytest.mark.rule(74)
def test_each_mechanism_logs_in_as_the_release_knows_it(old_kafka: OtherKafka):
    assert log_in(old_kafka, "PLAIN", "alice", ALICE) == [1]
    sent = {(api, version) for at, api, version in TRAFFIC.snapshot() if old_kafka.sasl_servers in at}
    if old_kafka.version.startswith("0."):
        assert ("SaslHandshake", 0) in sent
        assert not any(api == "SaslAuthenticate" for api, _ in sent)
    else:
        assert {("SaslHandshake", 1), ("SaslAuthenticate", 0)} <= sent


@pytest.mark.rule(75)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(old_kafka: OtherKafka, mechanism: str):
    with pytest.raises(AuthenticationFailed) as caught:
        log_in(old_kafka, mechanism, "alice" if mechanism == "PLAIN" else "bob", "wrong-hunter2")
    assert not caught.value.retriable
    assert "hunter2" not in f"{caught.value} {caught.value!r}"
    told = (
        "closed the connection, which means that authentication failed"
        if old_kafka.version.startswith("0.")
        else "authentication failed"
    )
    assert told in str(caught.value)


def test_scram(old_kafka: OtherKafka):
    until = time.monotonic() + 60
    while True:  # the broker hears of its users from ZooKeeper
        try:
            assert log_in(old_kafka, "SCRAM-SHA-256", "bob", BOB) == [1]
            break
        except AuthenticationFailed:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def test_a_mechanism_that_is_not_offered(old_kafka: OtherKafka):
    with pytest.raises(AuthenticationFailed, match="it offers PLAIN, SCRAM-SHA-256"):
        log_in(old_kafka, "SCRAM-SHA-512", "bob", BOB)


def test_a_listener_without_sasl_says_so(old_kafka: OtherKafka):
    with pytest.raises(AuthenticationFailed, match="has no SASL"):
        log_in(old_kafka, "PLAIN", "alice", ALICE, old_kafka.bootstrap_servers)
