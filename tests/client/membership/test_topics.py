"""The check whether subscribed topics have changed: when it is due, and what follows if brokers do not answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client.errors import KafkaError
from kseg.client.membership.topics import SubscribedTopics
from kseg.client.protocol.messages.metadata import MetadataRequest


def test_a_check_that_failed_is_due_again_after_a_pause(fake: Any, fakes: Any, connect: Any):
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=10, retry_backoff_max_ms=20, default_api_timeout_ms=200)
    fake.add_topic("t", [1])
    topics = SubscribedTopics(["t"], None, 3600)
    assert topics.changes(cluster, ["t"], {"t": 1}) is None
    assert topics.due_in > 3000
    fake.on(MetadataRequest, lambda _: fakes.CLOSE)
    for _ in range(4):
        with pytest.raises(KafkaError) as caught:
            topics.changes(cluster, ["t"], {"t": 1})
        assert caught.value.retriable
        assert topics.due_in <= 0.02
    fake.on(MetadataRequest, fake.metadata)
    fake.add_topic("t", [1, 1])
    assert topics.changes(cluster, ["t"], {"t": 1}) == "partitions have changed: t"
    assert topics.due_in > 3000


def test_a_topic_that_does_not_exist_yet_is_looked_for_after_a_pause(fake: Any, connect: Any):
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=10, retry_backoff_max_ms=20)
    fake.add_topic("t", [1])
    topics = SubscribedTopics(["t", "later"], None, 3600)
    for _ in range(4):
        assert topics.changes(cluster, ["t", "later"], {"t": 1, "later": 0}) is None
        assert topics.due_in <= 0.02
    fake.add_topic("later", [1, 1])
    assert topics.changes(cluster, ["t", "later"], {"t": 1, "later": 0}) == "partitions have changed: later"


def test_a_topic_that_is_created_after_the_subscription_is_assigned_soon(
    fake: Any, fakes: Any, member: Any, until: Any
):
    fakes.group(fake)
    one = member(topics=["t", "later"], max_age=3_600_000)
    assert {tp.topic for tp in one.poll(60).owned} == {"t"}
    fake.add_topic("later", [1])
    until(lambda: len(one.assignment) == 3, 60, lambda: one.assignment, lambda: one.poll(0.1))


def test_a_poll_is_not_held_up_by_brokers_that_do_not_answer_the_check(fake: Any, fakes: Any, member: Any, until: Any):
    fakes.group(fake)
    one = member(max_age=50)
    one.poll(60)
    fake.on(MetadataRequest, lambda _: fakes.CLOSE)
    asked = len(fake.requests(MetadataRequest))
    longest = 0.0
    while len(fake.requests(MetadataRequest)) < asked + 5:
        began = time.monotonic()
        one.poll(0.1)
        longest = max(longest, time.monotonic() - began)
    assert longest < 20  # a call that repeats requests until default.api.timeout.ms takes a minute
    fake.on(MetadataRequest, fake.metadata)
    fake.add_topic("t", [1, 1, 1])
    until(lambda: len(one.assignment) == 3, 120, lambda: one.assignment, lambda: one.poll(0.1))
