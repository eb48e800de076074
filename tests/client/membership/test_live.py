"""Our members in one group with Java's and librdkafka's, on three real brokers: both protocols, every strategy."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kseg.client import (
    ClientConfig,
    Cluster,
    CommittedOffset,
    OffsetCommitFailed,
    TopicPartition,
    commit_offsets,
    committed_offsets,
)
from kseg.client.admin.configs import AlterConfig, ConfigResource, alter_configs
from kseg.client.admin.topics import create_topic
from kseg.client.groups.offsets import Committer
from kseg.client.membership.assignor import Assignor
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.simple_assignors import RangeAssignor, RoundRobinAssignor
from kseg.client.membership.sticky import CooperativeStickyAssignor, StickyAssignor
from kseg.client.protocol.enums import ConfigResourceType
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.java_hash import string_hash
from skips import full_scale_only

pytestmark = pytest.mark.broker

PARTITIONS = 7
OFFSETS = "__consumer_offsets"
PROTOCOLS = ["classic", "consumer"]
ROOT = Path(__file__).parents[3]
JAVA = "org.apache.kafka.clients.consumer."
STRATEGIES: list[tuple[type[Assignor], str, str]] = [
    (RangeAssignor, f"{JAVA}RangeAssignor", "range"),
    (RoundRobinAssignor, f"{JAVA}RoundRobinAssignor", "roundrobin"),
    (CooperativeStickyAssignor, f"{JAVA}CooperativeStickyAssignor", "cooperative-sticky"),
]
Until = Callable[..., None]


def config(kafka3: Any) -> ClientConfig:
    properties = {"bootstrap.servers": kafka3.bootstrap_servers, "metadata.max.age.ms": "1000"}
    return ClientConfig.from_properties(properties, client_id="ours")


@pytest.fixture
def topic(kafka3: Any) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Cluster(config(kafka3)) as cluster:
        create_topic(cluster, name, partitions=PARTITIONS, replication_factor=3)
    return name


class Party:
    """Members of one group, of all three clients."""

    def __init__(self, kafka3: Any, topic: str, java_members: Any, until: Until) -> None:
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = topic
        self.servers = kafka3.bootstrap_servers
        self.ours: list[GroupMember] = []
        self.javas: list[str] = []
        self.confluents: list[confluent_kafka.Consumer] = []
        self._kafka = kafka3
        self._java = java_members
        self._until = until

    def our(self, *, instance_id: str | None = None, **options: Any) -> GroupMember:
        settings = MemberSettings(session_timeout_ms=30_000, heartbeat_interval_ms=300, instance_id=instance_id)
        if "pattern" not in options:
            options.setdefault("topics", [self.topic])
        self.ours.append(GroupMember(config(self._kafka), self.group, settings=settings, **options))
        return self.ours[-1]

    def java(self, **properties: object) -> str:
        self.javas.append(
            self._java.open(
                self.topic,
                bootstrap_servers=self.servers,
                group_id=self.group,
                metadata_max_age_ms=1000,
                **properties,
            )
        )
        return self.javas[-1]

    def confluent(self, **properties: object) -> confluent_kafka.Consumer:
        given = {"bootstrap.servers": self.servers, "group.id": self.group}
        consumer = confluent_kafka.Consumer(given | {key.replace("_", "."): value for key, value in properties.items()})
        consumer.subscribe([self.topic])
        self.confluents.append(consumer)
        return consumer

    def parts(self) -> list[set[str]]:
        return [
            *({str(tp) for tp in member.assignment} for member in self.ours),
            *(self._java.owned[name] for name in self.javas),
            *({f"{tp.topic}-{tp.partition}" for tp in consumer.assignment()} for consumer in self.confluents),
        ]

    def shared_out(self, partitions: int = PARTITIONS) -> bool:
        """Every member has some, all are covered, none twice."""
        parts = self.parts()
        everything = {f"{self.topic}-{number}" for number in range(partitions)}
        return all(parts) and sum(map(len, parts)) == partitions and set().union(*parts) == everything

    def turn(self) -> None:
        for member in self.ours:
            member.poll(0.1)
        for consumer in self.confluents:
            consumer.poll(0.05)

    def settle(self, partitions: int = PARTITIONS, seconds: float = 120.0) -> None:
        self._until(lambda: self.shared_out(partitions), seconds, self.parts, self.turn)

    def await_shown_by_kafka(self, member: GroupMember) -> None:
        """Until the consumer-groups tool shows the member with just its partitions."""
        asked = ("--bootstrap-server", self.servers, "--describe", "--group", self.group, "--members", "--verbose")
        told: list[list[str]] = []

        def shown() -> bool:
            told[:] = [line.split() for line in self._java.groups(*asked) if member.member_id in line]
            mine = f"{self.topic}:{','.join(str(tp.partition) for tp in sorted(member.assignment))}"
            return [mine in row for row in told] == [True]

        self._until(shown, 60, told, self.turn)

    def close(self) -> None:
        for member in self.ours:
            member.close()
        for consumer in self.confluents:
            consumer.close()
        for name in self.javas:
            self._java.close(name)


@pytest.fixture
def party(kafka3: Any, topic: str, java_members: Any, until: Until) -> Iterator[Party]:
    made = Party(kafka3, topic, java_members, until)
    yield made
    made.close()


@pytest.mark.rule(3, 205, 209, 215)
@pytest.mark.parametrize(
    ("ours", "javas", "name"),
    [
        pytest.param(*strategy, id=strategy[2], marks=() if strategy[2] == "cooperative-sticky" else full_scale_only)
        for strategy in STRATEGIES
    ],
)
def test_one_group_with_java_and_librdkafka(party: Party, ours: type[Assignor], javas: str, name: str):
    """Ours leads at first; then it leaves, and another's leader assigns to a second one of ours."""
    first = party.our(assignors=[ours()])
    party.settle()
    party.java(partition_assignment_strategy=javas)
    party.confluent(partition_assignment_strategy=name)
    party.settle()

    party.await_shown_by_kafka(first)

    party.our(assignors=[ours()])
    party.settle()
    party.ours.pop(0).close()
    party.settle()


def test_a_new_protocol_group_with_java_and_librdkafka(party: Party):
    first = party.our(protocol="consumer")
    party.settle()
    party.java(group_protocol="consumer")
    party.confluent(**{"group.protocol": "consumer"})
    party.settle()
    party.await_shown_by_kafka(first)
    party.ours.pop(0).close()
    party.settle()
    party.our(protocol="consumer", server_assignor="range")
    party.settle()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_takes_topics_that_come_later(
    kafka3: Any, party: Party, until: Until, scale: Callable[[bool, bool], bool], protocol: str
):
    """Classic: the members watch. New protocol: the coordinator matches (RE2's syntax), every ten seconds at most."""
    prefix = f"later-{uuid.uuid4().hex[:6]}"

    def wait_for(*names: str) -> None:
        wanted = {f"{prefix}-{name}" for name in names}
        until(lambda: {tp.topic for tp in member.assignment} == wanted, 120, lambda: member.assignment, party.turn)

    with Cluster(config(kafka3)) as cluster:
        for name in ("a", "c"):
            create_topic(cluster, f"{prefix}-{name}", partitions=2, replication_factor=1)
        member = party.our(protocol=protocol, pattern=f"{prefix}-[ab]")
        wait_for("a")
        if protocol == "classic" or scale(False, True):
            create_topic(cluster, f"{prefix}-b", partitions=2, replication_factor=1)
            wait_for("a", "b")


@pytest.mark.rule(228)
def test_the_leader_notices_new_partitions(party: Party):
    admin = AdminClient({"bootstrap.servers": party.servers})
    party.our(assignors=[RoundRobinAssignor()])
    party.java(partition_assignment_strategy=f"{JAVA}RoundRobinAssignor")
    party.settle()
    admin.create_partitions([NewPartitions(party.topic, PARTITIONS + 3)])[party.topic].result(60)
    party.settle(PARTITIONS + 3)


MORTAL = """
import sys
from kseg.client import ClientConfig
from kseg.client.membership.member import GroupMember
from kseg.client.membership.settings import MemberSettings
config = ClientConfig.from_properties({"bootstrap.servers": sys.argv[1]}, client_id="mortal")
settings = MemberSettings(session_timeout_ms=4000, heartbeat_interval_ms=300)
member = GroupMember(config, sys.argv[2], topics=[sys.argv[3]], protocol=sys.argv[4], settings=settings)
while True:
    change = member.poll(1.0)
    if change:
        print(len(change.owned), flush=True)
"""


@pytest.mark.rule(206)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_others_take_over_from_a_member_that_dies(kafka3: Any, party: Party, protocol: str):
    # With the new protocol it is the group's setting that says when a member is dead.
    setting = {
        ConfigResource(ConfigResourceType.GROUP, party.group): [AlterConfig("consumer.session.timeout.ms", "4000")]
    }
    with Cluster(config(kafka3)) as cluster:
        alter_configs(cluster, setting).or_raise()
    command = [sys.executable, "-c", MORTAL, party.servers, party.group, party.topic, protocol]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == str(PARTITIONS)
        member = party.our(protocol=protocol)
        party._until(lambda: 0 < len(member.assignment) < PARTITIONS, 120, party.parts, party.turn)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    party.settle()


@pytest.mark.rule(223)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_that_comes_back_gets_its_partitions_without_a_rebalance(party: Party, protocol: str):
    stays = party.our(instance_id="stays", protocol=protocol)
    goes = party.our(instance_id="goes", protocol=protocol)
    party.settle()
    before, generation, ours = goes.assignment, stays.generation, stays.assignment
    party.ours.remove(goes)
    goes.close()
    back = party.our(instance_id="goes", protocol=protocol)
    party._until(lambda: back.assignment, 120, party.parts, party.turn)
    for _ in range(5):
        party.turn()
    assert (back.assignment, stays.assignment) == (before, ours)
    if protocol == "classic":
        assert back.generation == stays.generation == generation


@pytest.mark.rule(227)
def test_members_go_on_when_their_coordinator_dies(kafka3: Any, party: Party, java_members: Any, until: Until):
    """The new coordinator reads the groups from the offsets topic: nobody joins again, commits go on."""
    other = Party(kafka3, party.topic, java_members, until)
    with Cluster(config(kafka3)) as cluster:
        cluster.retry(lambda deadline: cluster.coordinator(("group", party.group), deadline))  # makes the offsets topic
        # Whichever broker answers: it may not have heard of that topic yet.
        until(lambda: cluster.metadata([OFFSETS], refresh=True).topics[OFFSETS].partitions)
        count = len(cluster.metadata([OFFSETS]).topics[OFFSETS].partitions)
    names = (f"{party.group}-{number}" for number in range(1000))
    other.group = next(name for name in names if place_of(name, count) == place_of(party.group, count))
    parties = {"classic": party, "consumer": other}
    for protocol, group in parties.items():
        group.our(protocol=protocol)
        group.our(protocol=protocol)
        group.settle()
    members = [*party.ours, *other.ours]
    before = [(member.generation, member.member_id, member.assignment) for member in members]
    with Cluster(config(kafka3)) as cluster:
        found = [
            cluster.retry(lambda deadline, group=group: cluster.coordinator(("group", group.group), deadline)).endpoint
            for group in parties.values()
        ]
        assert found[0] == found[1]
        kafka3.broker.kill(found[0].node_id)
        for group in parties.values():
            tp = min(group.ours[0].assignment)
            group.ours[0].commit({tp: CommittedOffset(3)})
            assert committed_offsets(cluster, group.group, [tp])[tp].offset == 3
        for _ in range(10):
            party.turn()
            other.turn()
    assert [(member.generation, member.member_id, member.assignment) for member in members] == before
    other.close()


def place_of(group: str, partitions: int) -> int:
    """The partition of the offsets topic that a group stands in."""
    unsigned = string_hash(group)
    return abs(unsigned - (1 << 32) * (unsigned >> 31)) % partitions


def test_one_group_of_both_protocols(party: Party):
    """While a group moves over to the new protocol (KIP-848), its coordinator speaks to each member in its own."""
    party.our(protocol="classic", assignors=[CooperativeStickyAssignor()])
    party.settle()
    party.our(protocol="consumer")
    party.settle()
    party.java(group_protocol="consumer")
    party.settle()
    party.ours.pop(0).close()
    party.settle()


@pytest.mark.rule(210)
def test_a_rolling_change_of_strategy_takes_what_all_have(party: Party):
    """Who prefers another strategy already goes on with the old one until the last member has moved over."""
    first = party.our(assignors=[CooperativeStickyAssignor(), RangeAssignor()])
    party.settle()
    old = party.java(partition_assignment_strategy=f"{JAVA}RangeAssignor")
    party.settle()
    numbers = sorted(tp.partition for tp in first.assignment)
    assert numbers in ([0, 1, 2, 3], [4, 5, 6], [0, 1, 2], [3, 4, 5, 6])  # in a row: range did it
    party.javas.remove(old)
    party._java.close(old)
    party.our(assignors=[CooperativeStickyAssignor()])
    party.settle()


@pytest.mark.rule(190, 196, 212)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_a_member_in_its_generation_may_commit(kafka3: Any, party: Party, protocol: str):
    """Neither somebody from outside, nor a member that the group has gone on without."""
    member = party.our(protocol=protocol)
    party.settle()
    tp = TopicPartition(party.topic, 0)
    member.commit({tp: CommittedOffset(5, 0, "by a member")})
    assert member.committed([tp])[tp] == CommittedOffset(5, 0, "by a member")
    assert member.committed()[TopicPartition(party.topic, 1)].offset == -1

    zombie = Committer(member.generation - 1, member.member_id)
    late = {"classic": ErrorCode.ILLEGAL_GENERATION, "consumer": ErrorCode.STALE_MEMBER_EPOCH}[protocol]
    with Cluster(config(kafka3)) as cluster:
        for committer, code in ((Committer(), ErrorCode.UNKNOWN_MEMBER_ID), (zombie, late)):
            with pytest.raises(OffsetCommitFailed) as caught:
                commit_offsets(cluster, party.group, {tp: CommittedOffset(6)}, committer=committer)
            assert caught.value.partitions == {tp: code}
    assert member.committed([tp])[tp].offset == 5


@pytest.mark.rule(216)
def test_sticky_members_keep_what_they_can(party: Party):
    """Eager, yet what a member had comes back to it: its user data tells the leader."""
    first, second = party.our(assignors=[StickyAssignor()]), party.our(assignors=[StickyAssignor()])
    party.settle()
    before = [first.assignment, second.assignment]
    party.java(partition_assignment_strategy=f"{JAVA}StickyAssignor")
    party.settle()
    assert first.assignment <= before[0]
    assert second.assignment <= before[1]
