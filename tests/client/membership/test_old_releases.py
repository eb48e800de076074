"""Members on older releases: JoinGroup from version 0, with another client of that time in the group."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, CommittedOffset, TopicPartition, UnsupportedVersion, describe_group
from kseg.client.cluster.metadata import Broker
from kseg.client.membership.classic_session import ClassicSession
from kseg.client.membership.consumer_protocol import ConsumerProtocol
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.simple_assignors import RoundRobinAssignor
from kseg.client.membership.sticky import CooperativeStickyAssignor
from kseg.client.protocol.messages.groups import JoinGroupRequest
from kseg.client.retry import Deadline
from skips import IN_FULL

pytestmark = pytest.mark.broker

RELEASES = ["0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2", "3.9.2"]
Until = Callable[..., None]


def config(servers: str, release: str) -> ClientConfig:
    properties = {"bootstrap.servers": servers, "metadata.max.age.ms": "1000"}
    if release.startswith("0.9"):
        properties["broker.version.fallback"] = "0.9.0"
    return ClientConfig.from_properties(properties, client_id="ours")


@pytest.mark.rule(207)
@pytest.mark.parametrize("release", RELEASES)
def test_two_members_share_and_hand_over(
    kafka_release: Callable[[str], Any], until: Until, scale: Callable[[Any, Any], Any], release: str
):
    """JoinGroup v0 on 0.9, v1 on 0.10, v2 on 1.1, v7 on 2.8, v9 on 3.9."""
    if release not in scale(["0.9.0.1"], RELEASES):
        pytest.skip(IN_FULL)
    kafka = kafka_release(release)
    topic = kafka.topic(4)
    group = f"group-{uuid.uuid4().hex[:8]}"
    settings = MemberSettings(session_timeout_ms=30_000, heartbeat_interval_ms=300, max_poll_interval_ms=60_000)
    everything = {TopicPartition(topic, number) for number in range(4)}
    assignors = RoundRobinAssignor if release.startswith(("0", "1")) else CooperativeStickyAssignor

    def open_() -> GroupMember:
        return GroupMember(
            config(kafka.bootstrap_servers, release), group, topics=[topic], assignors=[assignors()], settings=settings
        )

    with open_() as first:
        until(lambda: first.assignment == everything, 120, first, lambda: first.poll(0.2))
        first.commit({TopicPartition(topic, 1): CommittedOffset(7, -1, "m")})
        assert first.committed()[TopicPartition(topic, 1)][::2] == (7, "m")
        with open_() as second:

            def turn() -> None:
                first.poll(0.2)
                second.poll(0.2)

            until(lambda: len(first.assignment) == len(second.assignment) == 2, 120, (first, second), turn)
            assert first.assignment | second.assignment == everything
        until(lambda: first.assignment == everything, 120, first, lambda: first.poll(0.2))


@pytest.mark.rule(225)
def test_a_group_that_waits_for_its_leader_is_called_awaiting_sync_by_old_brokers(kafka_release: Callable[[str], Any]):
    """CompletingRebalance since 1.1; the name is passed on as the broker tells it."""
    release = "0.9.0.1"
    group = f"group-{uuid.uuid4().hex[:8]}"

    def lookup(topics: Any) -> tuple[dict[str, int], dict[TopicPartition, frozenset[str]]]:
        raise AssertionError("nobody leads here yet")

    session = ClassicSession(
        group, MemberSettings(session_timeout_ms=30_000), ConsumerProtocol([RoundRobinAssignor()], lookup, None)
    )
    with Cluster(config(kafka_release(release).bootstrap_servers, release)) as cluster:
        end = cluster.retry(lambda deadline: cluster.coordinator(("group", group), deadline)).endpoint
        assert end.node_id is not None
        connection = cluster.open_connection(Broker(end.node_id, end.host, end.port), Deadline.after(20))
        version = connection.version_of(JoinGroupRequest)
        request = session.join_request(version, "")
        assert version == 0
        assert session.joined(connection.call(request, version, deadline=Deadline.after(20))) is None
        assert describe_group(cluster, group).state == "AwaitingSync"


@pytest.mark.parametrize("release", ["2.8.2"])
def test_the_new_protocol_is_refused_by_a_broker_without_it(kafka_release: Callable[[str], Any], release: str):
    kafka = kafka_release(release)
    given = config(kafka.bootstrap_servers, release)
    with (
        GroupMember(given, "g", topics=["t"], protocol="consumer") as member,
        pytest.raises(UnsupportedVersion, match="ConsumerGroupHeartbeat"),
    ):
        member.poll(60)
