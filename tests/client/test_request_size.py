"""Requests that are too large: refused before they are sent, and named where a broker closes over one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import client.connection
from client.connection import Connection
from client.errors import BrokerUnavailable, RequestTooLarge
from client.protocol.api import api_of
from client.protocol.messages import MetadataRequest
from client.retry import Deadline
from jobs.broker import EmbeddedKafka

SMALL = 100_000


def topics(count: int) -> MetadataRequest:
    named = [MetadataRequest.MetadataRequestTopic(name=f"topic-{i:0100}") for i in range(count)]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


def test_a_request_above_what_brokers_take_is_refused_and_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.connection, "MAX_REQUEST", SMALL)
    connection = Connection("me", broker="1 (here:9092)")
    with pytest.raises(RequestTooLarge, match=r"Metadata v12 of 1\d{5} bytes: brokers take 100000") as caught:
        connection.request(api_of(MetadataRequest), 12, topics(1000))
    assert not caught.value.retriable
    assert connection.open == 0
    assert connection.request(api_of(MetadataRequest), 12, topics(1))


@pytest.fixture(scope="module")
def narrow() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(light=True, config={"socket.request.max.bytes": str(SMALL)}) as broker:
        yield broker


@pytest.mark.broker
def test_a_broker_that_closes_over_a_large_request_is_told_with_request_size_and_remedy(
    narrow: EmbeddedKafka, connect: Any
) -> None:
    cluster = connect(narrow.bootstrap_servers, default_api_timeout_ms=4000)
    connection = cluster.retry(cluster.any_connection)
    deadline = Deadline.after(30)
    assert connection.call(topics(1), 12, deadline=deadline).topics
    with pytest.raises(BrokerUnavailable, match=r"Metadata v12 \(1\d{5} bytes\).*socket\.request\.max\.bytes"):
        connection.call(topics(1000), 12, deadline=deadline)
    again = cluster.retry(cluster.any_connection)
    assert again.call(topics(1), 12, deadline=deadline).topics
