"""`kseg api call` over TLS and SASL: properties from a file, delegation tokens in every version, secrets nowhere."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.broker.properties import to_text
from kseg.jobs.cli import cli

pytestmark = pytest.mark.broker

#: How a secret may show itself: as it is, in hex, in base64.
FORMS: tuple[Callable[[bytes], str], ...] = (
    bytes.decode,
    bytes.hex,
    lambda secret: base64.b64encode(secret).decode().rstrip("="),
)


def properties_file(folder: Path, properties: dict[str, str]) -> str:
    file = folder / "client.properties"
    file.write_text(to_text(properties))
    return str(file)


def run(file: str, api: str, document: dict[str, Any] | None = None, *args: str) -> Result:
    call = ["api", "call", api, "--command-config", file, "--json", json.dumps(document or {}), *args]
    return CliRunner().invoke(cli, call)


@pytest.mark.parametrize("listener", ["TLS", "MTLS", "PLAINSASL", "SECURE"])
def test_a_properties_file_is_all_that_a_secured_listener_needs(
    secure_kafka: Any, tmp_path: Path, listener: str
) -> None:
    result = run(properties_file(tmp_path, secure_kafka.properties(listener)), "DescribeCluster")
    assert result.exit_code == 0, result.stdout
    assert json.loads(result.stdout)["brokers"][0]["brokerId"] == 1


def test_a_trace_of_a_login_tells_its_requests_and_no_secret(secure_kafka: Any, tmp_path: Path) -> None:
    file = properties_file(tmp_path, secure_kafka.properties("SECURE"))
    result = run(file, "DescribeCluster", {}, "--trace")
    order = [line.split()[-4] for line in result.stderr.splitlines() if " -> " in line]
    assert order[:3] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
    for form in FORMS:
        assert form(secure_kafka.bob.encode()) not in result.stderr + result.stdout


def test_a_wrong_password_is_told_without_it(secure_kafka: Any, tmp_path: Path) -> None:
    properties = secure_kafka.properties("SECURE") | {"sasl.password": "wr0ng-passw0rd"}
    result = run(properties_file(tmp_path, properties), "DescribeCluster", {}, "--trace", "--debug")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "AuthenticationFailed"
    for form in FORMS:
        assert form(b"wr0ng-passw0rd") not in result.stderr + result.stdout


@pytest.mark.parametrize("version", range(1, API_BY_NAME["CreateDelegationToken"].versions.highest + 1))
def test_a_delegation_token_lives_and_ends(secure_kafka: Any, tmp_path: Path, version: int) -> None:
    file = properties_file(tmp_path, secure_kafka.properties("PLAINSASL"))
    of_others = min(version, API_BY_NAME["RenewDelegationToken"].versions.highest)
    made = run(file, "CreateDelegationToken", {"maxLifetimeMs": 3_600_000}, "--version", str(version), "--trace")
    token = json.loads(made.stdout)
    assert (made.exit_code, token["principalName"]) == (0, "bob")
    assert token["maxTimestampMs"] - token["issueTimestampMs"] == 3_600_000
    hmac = base64.b64decode(token["hmac"])
    assert len(hmac) == 64
    for form in (bytes.hex, lambda data: base64.b64encode(data).decode()):
        assert form(hmac) not in made.stderr
    assert re.search(r" CreateDelegationToken v\d ", made.stderr)

    def described() -> list[dict[str, Any]]:
        result = run(file, "DescribeDelegationToken", {"owners": None}, "--version", str(version))
        assert result.exit_code == 0
        return [found for found in json.loads(result.stdout)["tokens"] if found["tokenId"] == token["tokenId"]]

    wait_until(lambda: len(described()) == 1)
    assert described()[0]["hmac"] == token["hmac"]
    by_hmac = {"hmac": token["hmac"], "renewPeriodMs": 60_000}
    renewed = run(file, "RenewDelegationToken", by_hmac, "--version", str(of_others))
    assert (renewed.exit_code, json.loads(renewed.stdout)["errorCode"]) == (0, "NONE")
    wait_until(lambda: described()[0]["expiryTimestamp"] == json.loads(renewed.stdout)["expiryTimestampMs"])
    by_hmac = {"hmac": token["hmac"], "expiryTimePeriodMs": -1}
    ended = run(file, "ExpireDelegationToken", by_hmac, "--version", str(of_others))
    assert (ended.exit_code, json.loads(ended.stdout)["errorCode"]) == (0, "NONE")
    wait_until(lambda: not described())


def wait_until(true: Callable[[], bool]) -> None:
    """What the controller has taken, the broker knows a moment later."""
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
