"""Producing and group membership where connections log in: over TLS, and over sessions that end under way."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client import LATEST, ClientConfig, Cluster, TopicPartition, list_offsets
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
from kseg.client.producer import KafkaProducer
from kseg.client.wire.trace import TRAFFIC

pytestmark = pytest.mark.broker


def requests(kafka: Any, listener: str, api: str) -> int:
    port = kafka.servers(listener).rpartition(":")[2]
    return sum(t.requests for (at, name, _), t in TRAFFIC.snapshot().items() if port in at and name == api)


def end_of(kafka: Any, topic: str) -> int:
    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="check")
    place = TopicPartition(topic, 0)
    with Cluster(config) as cluster:
        return list_offsets(cluster, {place: LATEST}, isolation_level="read_uncommitted")[place].offset


@pytest.mark.parametrize("listener", ["SECURE", "MTLS12"])
def test_a_producer_over_tls(secure_kafka: Any, listener: str):
    topic = secure_kafka.topic()
    with KafkaProducer(secure_kafka.properties(listener) | {"linger.ms": "1", "batch.size": "4096"}) as producer:
        for number in range(3000):
            producer.send(topic, b"%d" % number * 50, partition=0)
    assert end_of(secure_kafka, topic) == 3000


@pytest.mark.usefixtures("early_logins")
def test_neither_a_producer_nor_a_member_loses_anything_when_sessions_end(secure_kafka: Any):
    """SHORT ends sessions after 3 s; each connection logs in again under way, with requests in flight."""
    topic = secure_kafka.topic()
    properties = secure_kafka.properties("SHORT")
    member_config = ClientConfig.from_properties(properties, client_id="member")
    # The member's heartbeats have connections of their own, from the first one on.
    often = MemberSettings(heartbeat_interval_ms=300)
    sent = 0
    with (
        KafkaProducer(properties | {"linger.ms": "0"}) as producer,
        GroupMember(member_config, f"{topic}-group", topics=[topic], settings=often) as member,
    ):
        until = time.monotonic() + 120
        while not member.assignment and time.monotonic() < until:
            member.poll(0.2)
        generation = member.generation
        opened = logins = 0
        settled, until = time.monotonic() + 4.5, time.monotonic() + 9
        while time.monotonic() < until:
            for _ in range(20):
                producer.send(topic, b"x" * 1000, partition=0)
                sent += 1
            assert member.poll(0.1) is None, "still the same assignment"
            if not opened and time.monotonic() > settled:
                opened = requests(secure_kafka, "SHORT", "ApiVersions")
                logins = requests(secure_kafka, "SHORT", "SaslHandshake")
        producer.flush()
        assert member.generation == generation
        assert requests(secure_kafka, "SHORT", "ApiVersions") == opened, "no connection was opened anew"
        assert requests(secure_kafka, "SHORT", "SaslHandshake") >= logins + 3
    assert end_of(secure_kafka, topic) == sent
