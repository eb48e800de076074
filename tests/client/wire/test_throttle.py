"""From which version on the client waits, against Java's word; and how long."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from java_programs import java_with_kafka
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.schema import NEVER
from kseg.client.wire.throttle import Throttle


@pytest.fixture(scope="module")
def javas_word() -> dict[tuple[str, int], bool]:
    """Java's `shouldClientThrottle` for every API and version that its newest client has."""
    program = Path(__file__).with_name("Throttling.java")
    command = [*java_with_kafka("-Xmx256m"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = (line.split() for line in done.stdout.splitlines())
    return {(name, int(version)): waits == "true" for name, version, waits in lines}


@pytest.mark.rule(22, 138)
def test_who_waits_is_javas_word_for_every_api_and_version(javas_word: dict[tuple[str, int], bool]):
    assert len(javas_word) > 250
    waits = {name: api.request.CLIENT_WAITS for name, api in API_BY_NAME.items()}
    assert {(name, version): waits[name].has(version) for name, version in javas_word} == javas_word
    assert {name for name in waits if waits[name] != NEVER} <= {name for name, _ in javas_word}


@pytest.mark.rule(265)
def test_a_wait_is_as_long_as_the_broker_says_and_a_shorter_one_does_not_shorten_it():
    throttle = Throttle()
    throttle.note(API_BY_NAME["Fetch"], 12, SimpleNamespace(throttle_time_ms=300_000))
    throttle.note(API_BY_NAME["Fetch"], 12, SimpleNamespace(throttle_time_ms=10_000))
    assert 200 < throttle.remaining <= 300


def test_an_absurd_wait_is_capped_and_reported(caplog: pytest.LogCaptureFixture):
    throttle = Throttle()
    throttle.note(API_BY_NAME["Fetch"], 12, SimpleNamespace(throttle_time_ms=2**31 - 1))
    assert throttle.remaining <= 600
    assert "Fetch: the broker throttles this client for 2147484 s; waiting 600 s" in caplog.text


def test_after_an_old_versions_answer_nobody_waits():
    throttle = Throttle()
    throttle.note(API_BY_NAME["Fetch"], 7, SimpleNamespace(throttle_time_ms=5000))
    assert throttle.remaining == 0
    throttle.note(API_BY_NAME["AlterClientQuotas"], 1, SimpleNamespace(throttle_time_ms=5000))
    assert throttle.remaining == 0


@pytest.mark.rule(22)
def test_an_answer_without_a_throttle_time_says_nothing():
    throttle = Throttle()
    throttle.note(API_BY_NAME["SaslHandshake"], 1, SimpleNamespace())
    throttle.note(API_BY_NAME["Fetch"], 12, SimpleNamespace(throttle_time_ms=0))
    assert throttle.remaining == 0


def test_every_connection_to_a_throttling_broker_waits_and_none_to_another(fake: Any, fakes: Any, connect: Any):
    other = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, other.host, other.port)]
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(throttle_time_ms=5000), lambda _: ListGroupsResponse())
    other.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    cluster = connect(fake.bootstrap_servers)
    brokers = cluster.metadata([]).brokers
    started = time.monotonic()
    cluster.send(ListGroupsRequest(), broker=1)
    cluster.send(ListGroupsRequest(), broker=2)
    assert time.monotonic() - started < 4

    def over_another_connection(deadline: Any) -> None:
        with cluster.open_connection(brokers[1], deadline) as own:
            own.call(MetadataRequest(topics=[]), own.version_of(MetadataRequest), deadline=deadline)

    cluster.retry(over_another_connection)
    assert time.monotonic() - started >= 5


def test_what_a_bootstrap_server_asked_for_holds_for_the_broker_that_it_is(fake: Any, connect: Any):
    def throttled(seen: Any) -> Any:
        response = fake.metadata(seen)
        response.throttle_time_ms = 300
        return response

    fake.on(MetadataRequest, throttled, fake.metadata)
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    cluster = connect(fake.bootstrap_servers)
    started = time.monotonic()
    cluster.metadata([])
    cluster.send(ListGroupsRequest(), broker=1)
    assert time.monotonic() - started >= 0.3
