"""What a real coordinator does with a classic group, seen from outside while members take each step by hand."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import confluent_kafka
import pytest

from kseg.client import (
    ClientConfig,
    Cluster,
    CommittedOffset,
    GroupError,
    TopicPartition,
    commit_offsets,
    describe_group,
    list_groups,
)
from kseg.client.admin.topics import create_topic
from kseg.client.cluster.metadata import Broker
from kseg.client.membership.classic_join import ClassicJoin, JoinProgress
from kseg.client.membership.classic_session import ClassicSession, Generation, Joiner, leave_request
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
from kseg.client.protocol.embedded.consumer_protocol import decode_assignment, decode_subscription
from kseg.client.protocol.embedded.group_records import GroupMetadataKey, GroupMetadataValue
from kseg.client.protocol.embedded.internal_topics import CONSUMER_OFFSETS, decode_internal
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.java_hash import string_hash
from kseg.client.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

pytestmark = pytest.mark.broker

SETTINGS = MemberSettings(session_timeout_ms=60_000, heartbeat_interval_ms=500)


class Bytes:
    """A group that is not about reading topics; its bytes are its own, as those of Connect and Streams."""

    def __init__(self, protocol_type: str = "something") -> None:
        self.protocol_type = protocol_type
        self.got = b""

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("v2", b"two"), ("v1", b"one")]

    def assign(self, protocol: str, joiners: Sequence[Joiner], *, skip: bool) -> Mapping[str, bytes]:
        return {joiner.member_id: joiner.metadata + b" of " + str(len(joiners)).encode() for joiner in joiners}

    def assigned(self, generation: Generation, data: bytes, *, leader: bool) -> None:
        self.got = data


class ByHand:
    """A member whose every request is sent by the test."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.protocol = Bytes()
        self.session = ClassicSession(group, SETTINGS, self.protocol)
        within = Deadline.after(60)
        endpoint = cluster.retry(lambda deadline: cluster.coordinator(("group", group), deadline)).endpoint
        assert endpoint.node_id is not None
        self.connection: BrokerConnection = cluster.open_connection(
            Broker(endpoint.node_id, endpoint.host, endpoint.port), within
        )

    def send_join(self) -> None:
        version = self.connection.version_of(JoinGroupRequest)
        self.connection.send(self.session.join_request(version, ""), version, deadline=Deadline.after(5))

    def joined(self) -> None:
        if self.session.joined(self.connection.receive(deadline=Deadline.after(60))) is not None:
            self.send_join()  # the id that was given
            assert self.session.joined(self.connection.receive(deadline=Deadline.after(60))) is None

    def sync(self) -> None:
        version = self.connection.version_of(SyncGroupRequest)
        request = self.session.sync_request(version)
        answer = self.connection.call(request, version, deadline=Deadline.after(60))
        assert self.session.synced(answer) is None

    def leave(self) -> None:
        version = self.connection.version_of(LeaveGroupRequest)
        request = leave_request(self.session.group, self.session.generation, None, version, "")
        assert self.connection.call(request, version, deadline=Deadline.after(60)).error_code == 0


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def states_of(cluster: Cluster, group: str) -> tuple[str, int]:
    described = describe_group(cluster, group)
    return described.state, len(described.members)


@pytest.mark.rule(205, 211, 212, 218, 224)
def test_a_group_goes_through_the_coordinators_states(cluster: Cluster, group: str, until: Callable[..., None]):
    assert states_of(cluster, group)[0] == "Dead"
    first, second = ByHand(cluster, group), ByHand(cluster, group)
    with first.connection, second.connection:
        first.send_join()
        first.joined()
        assert states_of(cluster, group) == ("CompletingRebalance", 1)
        first.sync()
        assert states_of(cluster, group) == ("Stable", 1)
        generation = first.session.generation.number

        second.send_join()
        assert second.session.joined(second.connection.receive(deadline=Deadline.after(60))) is not None
        second.send_join()
        until(lambda: states_of(cluster, group)[0] == "PreparingRebalance", 60)
        first.send_join()  # all members have to join when one does
        first.joined()
        second.joined()
        assert {first.session.generation.number, second.session.generation.number} == {generation + 1}
        assert [first.session.leader, second.session.leader] == [True, False]
        assert [len(first.session._joiners), len(second.session._joiners)] == [2, 0]
        first.sync()
        second.sync()
        assert (first.protocol.got, second.protocol.got) == (b"two of 2", b"two of 2")
        first.leave()
        second.leave()
        assert states_of(cluster, group) == ("Empty", 0)


@pytest.mark.rule(6, 209)
def test_a_group_of_another_type_is_moved_through_as_bytes_and_shut_to_consumers(
    cluster: Cluster, kafka: Any, group: str
):
    """Connect's and Streams' groups use the same protocol; nobody but they understands their bytes."""
    protocol = Bytes("something")
    join = ClassicJoin(cluster, ClassicSession(group, SETTINGS, protocol))
    until = time.monotonic() + 120
    while join.advance("", Deadline.after(1)) is not JoinProgress.DONE:
        assert time.monotonic() < until
    assert protocol.got == b"two of 1"
    listings = list_groups(cluster).values()
    assert [listed.protocol_type for groups in listings for listed in groups if listed.group == group] == ["something"]
    with GroupMember(cluster.config, group, topics=[kafka.topic()], settings=SETTINGS) as member:
        with pytest.raises(GroupError) as caught:
            member.poll(60)
        assert caught.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.rule(182)
def test_a_groups_coordinator_leads_the_partition_that_its_hash_names(cluster: Cluster):
    """Any broker is asked; all give the same answer, which can be worked out."""
    groups = [f"g{number}" for number in range(20)]
    cluster.retry(lambda deadline: cluster.coordinator(("group", groups[0]), deadline))  # the first one makes the topic
    partitions = cluster.metadata([CONSUMER_OFFSETS], refresh=True).topics[CONSUMER_OFFSETS].partitions
    for group in groups:
        found = cluster.retry(lambda deadline, group=group: cluster.coordinator(("group", group), deadline))
        signed = string_hash(group) - (1 << 32) * (string_hash(group) >> 31)
        assert found.endpoint.node_id == partitions[abs(signed) % len(partitions)].leader_id


@pytest.fixture
def offsets_reader(kafka: Any) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reads-by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            # Offsets of another test's open transaction would hold everything behind them back.
            "isolation.level": "read_uncommitted",
        }
    )
    yield consumer
    consumer.close()


@pytest.mark.rule(232)
def test_the_group_stands_in_the_offsets_topic(
    cluster: Cluster, kafka: Any, group: str, offsets_reader: confluent_kafka.Consumer
):
    """Members, generation, subscription and assignment: what another coordinator would go on with."""
    topic = kafka.topic(2)
    with GroupMember(cluster.config, group, topics=[topic], settings=SETTINGS) as member:
        assert member.poll(60) is not None
        signed = string_hash(group) - (1 << 32) * (string_hash(group) >> 31)
        partitions = cluster.metadata([CONSUMER_OFFSETS]).topics[CONSUMER_OFFSETS].partitions
        offsets_reader.assign([confluent_kafka.TopicPartition(CONSUMER_OFFSETS, abs(signed) % len(partitions), 0)])
        stored: GroupMetadataValue | None = None
        until = time.monotonic() + 60
        while stored is None or not stored.members:
            assert time.monotonic() < until
            message = offsets_reader.poll(0.5)
            if message is None or message.error():
                continue
            record = decode_internal(CONSUMER_OFFSETS, message.key(), message.value())
            if isinstance(record.key, GroupMetadataKey) and record.key.group == group:
                assert isinstance(record.value, GroupMetadataValue)
                stored = record.value
        [entry] = stored.members
        assert (stored.protocol_type, stored.protocol, stored.generation) == ("consumer", "range", member.generation)
        assert (stored.leader, entry.member_id, entry.client_id) == (member.member_id, member.member_id, "kseg-tests")
        assert (entry.session_timeout, entry.rebalance_timeout) == (60_000, 300_000)
        assert decode_subscription(entry.subscription).topics == [topic]
        [assigned] = decode_assignment(entry.assignment).assigned_partitions
        assert (assigned.topic, assigned.partitions) == (topic, [0, 1])


@pytest.mark.rule(231)
def test_a_group_that_all_have_left_stays_empty_while_it_has_offsets(cluster: Cluster, kafka: Any, group: str):
    tp = TopicPartition(kafka.topic(), 0)
    with GroupMember(cluster.config, group, topics=[tp.topic], settings=SETTINGS) as member:
        member.poll(60)
        member.commit({tp: CommittedOffset(3)})
        assert states_of(cluster, group) == ("Stable", 1)
    assert states_of(cluster, group) == ("Empty", 0)
    commit_offsets(cluster, group, {tp: CommittedOffset(4)})  # and somebody from outside may commit again


@pytest.mark.rule(222)
def test_a_session_timeout_that_the_broker_does_not_allow_is_told(cluster: Cluster, kafka: Any, group: str):
    settings = MemberSettings(session_timeout_ms=50, heartbeat_interval_ms=10)
    with GroupMember(cluster.config, group, topics=[kafka.topic()], settings=settings) as member:
        with pytest.raises(GroupError) as caught:
            member.poll(60)
        assert caught.value.code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_two_members_share_over_tls_and_sasl(secure_kafka: Any, until: Callable[..., None]):
    """JoinGroup's answer is waited for piece by piece, which TLS must bear."""
    config = ClientConfig.from_properties(secure_kafka.properties("SECURE"), client_id="c")
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with Cluster(config) as cluster:
        create_topic(cluster, topic, partitions=4)
    with GroupMember(config, topic, topics=[topic], settings=SETTINGS) as first:
        assert first.poll(60) is not None
        with GroupMember(config, topic, topics=[topic], settings=SETTINGS) as second:
            until(lambda: second.state == "PreparingRebalance", 60, "", lambda: second.poll(0.1))
            for _ in range(3):
                assert second.poll(0.2) is None

            def turn() -> None:
                first.poll(0.1)
                second.poll(0.1)

            until(lambda: len(first.assignment) == len(second.assignment) == 2, 120, (first, second), turn)
