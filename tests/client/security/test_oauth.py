"""OAUTHBEARER with a real broker that checks signatures, and a token endpoint of the tests' own."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kseg.client import AuthenticationFailed, ClientConfig, Cluster
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.security import CreateDelegationTokenRequest
from kseg.client.retry import Deadline
from kseg.client.security.tokens import REFRESH_WINDOW
from kseg.client.wire.trace import TRAFFIC

pytestmark = pytest.mark.broker

CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "service",
    "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
    "sasl.login.retry.backoff.max.ms": "500",
}


def properties(kafka: Any, listener: str = "OAUTH", **more: str) -> dict[str, str]:
    base = {"bootstrap.servers": kafka.servers(listener), "security.protocol": "SASL_PLAINTEXT"}
    return base | {"sasl.mechanism": "OAUTHBEARER"} | more


def principal(given: dict[str, str]) -> str:
    with Cluster(ClientConfig.from_properties(given, client_id="oauth")) as cluster:
        answer = cluster.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
        assert answer.error_code == 0
        return str(answer.principal_name)


def refusal(given: dict[str, str]) -> AuthenticationFailed:
    started = time.monotonic()
    with pytest.raises(AuthenticationFailed) as caught:
        principal(given)
    assert time.monotonic() - started < 50  # by default, tries go on for a minute
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
    return caught.value


@pytest.mark.rule(80)
def test_client_credentials_become_a_token_and_a_login(secure_kafka: Any, endpoint: Any):
    endpoint.answers = [lambda asked: (200, {"access_token": secure_kafka.jwt("service"), "expires_in": 60})]
    given = properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": endpoint.url}) | CREDENTIALS
    assert principal(given) == "service"
    assert principal(given) == "service"
    assert len(endpoint.asked) == 1, "the token is kept, although several connections logged in"


def test_an_endpoint_that_comes_back_is_waited_for(secure_kafka: Any, endpoint: Any):
    away = [lambda asked: (503, {})] * 4
    endpoint.answers = [*away, lambda asked: (200, {"access_token": secure_kafka.jwt("patient"), "expires_in": 60})]
    given = properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": endpoint.url}) | CREDENTIALS
    # One login gives up before the endpoint is back; the cluster tries again.
    assert principal(given | {"sasl.login.retry.backoff.max.ms": "1", "sasl.login.retry.backoff.ms": "1"}) == "patient"
    assert len(endpoint.asked) == 5


def test_a_wrong_client_secret(secure_kafka: Any, endpoint: Any):
    endpoint.answers = [lambda asked: (401, {"error": "invalid_client"})]
    given = properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": endpoint.url}) | CREDENTIALS
    error = refusal(given)
    assert "401 (invalid_client)" in str(error)
    assert not error.retriable


@pytest.mark.parametrize(
    "claims", [{"lifetime": -100.0}, {"aud": "somebody else"}], ids=["expired", "for another audience"]
)
def test_a_token_that_the_broker_does_not_take(secure_kafka: Any, tmp_path: Path, claims: dict[str, Any]):
    file = tmp_path / "token"
    file.write_text(secure_kafka.jwt("service", **claims))
    error = refusal(properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": file.as_uri()}))
    assert "the broker rejects the token" in str(error)
    assert not error.retriable


def test_a_token_from_a_file(secure_kafka: Any, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(secure_kafka.jwt("from-file") + "\n")
    assert principal(properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": file.as_uri()})) == "from-file"


@pytest.mark.rule(80)
def test_a_token_from_a_function(secure_kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_tokens.py").write_text(f"def token():\n    return {secure_kafka.jwt('from-function')!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = properties(secure_kafka, **{"sasl.oauthbearer.token.callback": "my_tokens:token"})
    assert principal(given) == "from-function"
    sys.modules.pop("my_tokens")


def test_a_token_without_a_signature_where_the_broker_allows_it(secure_kafka: Any):
    jaas = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_a="b";'
    assert principal(properties(secure_kafka, "UNSIGNED", **{"sasl.jaas.config": jaas})) == "alice"
    error = refusal(properties(secure_kafka, "OAUTH", **{"sasl.jaas.config": jaas}))
    assert "the broker rejects the token" in str(error)


def test_a_session_ends_with_its_token_and_goes_on_with_a_new_one(
    secure_kafka: Any, endpoint: Any, monkeypatch: pytest.MonkeyPatch
):
    # As early as there is a new token: the broker closes what it reads after the end of a session of seconds.
    monkeypatch.setattr("kseg.client.security.authenticate._WINDOW", (REFRESH_WINDOW + 0.02, REFRESH_WINDOW + 0.04))
    endpoint.answers = [lambda asked: (200, {"access_token": secure_kafka.jwt("short", lifetime=4), "expires_in": 4})]
    given = properties(secure_kafka, **{"sasl.oauthbearer.token.endpoint.url": endpoint.url}) | CREDENTIALS

    def handshakes() -> int:
        port = secure_kafka.servers("OAUTH").rpartition(":")[2]
        tallies = TRAFFIC.snapshot().items()
        return sum(t.requests for (at, api, _), t in tallies if port in at and api == "SaslHandshake")

    with Cluster(ClientConfig.from_properties(given, client_id="oauth")) as cluster:
        broker = next(iter(cluster.metadata([]).brokers.values()))
        connection = cluster.open_connection(broker, Deadline.after(30))
        before, until = handshakes(), time.monotonic() + 60
        while handshakes() < before + 2 and time.monotonic() < until:
            connection.call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(30))
            time.sleep(0.2)
    assert handshakes() >= before + 2
    assert len(endpoint.asked) >= 2
