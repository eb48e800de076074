"""Groups are described in every version, with what one may do; deleted, cut, and members removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kseg.client import (
    CommittedOffset,
    GroupError,
    TopicPartition,
    UnsupportedVersion,
    commit_offsets,
    committed_offsets,
)
from kseg.client.admin.groups import delete_group_offsets, delete_groups, remove_members
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.errors import KafkaError
from kseg.client.groups.descriptions import describe_group, describe_groups, list_groups
from kseg.client.protocol.enums import AclOperation
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from kseg.client.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from kseg.client.protocol.messages.offsets import OffsetDeleteRequest

ALL_OF_A_GROUP = {
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
}
OLDER = {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}
Join = Callable[..., Any]


@pytest.fixture
def join() -> Iterator[Join]:
    """`join(servers, group, topic, **settings)`: another client's consumer that is a member of the group."""
    consumers: list[Any] = []

    def enter(servers: str, group: str, topic: str, **settings: str) -> Any:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group} | given)
        consumers.append(consumer)
        consumer.subscribe([topic])
        until = time.monotonic() + 120
        while not consumer.assignment():
            assert time.monotonic() < until, "never got an assignment"
            consumer.poll(0.1)
        return consumer

    yield enter
    for consumer in consumers:
        consumer.close()


def servers(cluster: Any) -> str:
    return ",".join(f"{host}:{port}" for host, port in cluster.config.bootstrap_servers)


@pytest.mark.rule(249, 291)
def test_every_version_describes_a_classic_group(any_cluster: Any, each_version: Any, name: str, join: Join):
    create_topics(any_cluster, [NewTopic(name, 2, 1)]).or_raise()
    join(servers(any_cluster), name, name, group_instance_id="static-1", client_id="reader")
    for version in each_version(any_cluster, DescribeGroupsRequest):
        told = describe_groups(any_cluster, [name, f"{name}-none"], operations=True)
        group = told.done()[name]
        assert (group.type, group.state, group.protocol_type, group.assignor) == (
            "classic",
            "Stable",
            "consumer",
            "range",
        )
        [member] = group.members
        assert (member.client_id, member.instance_id) == ("reader", "static-1" if version >= 4 else None)
        assert member.assignment == {TopicPartition(name, 0), TopicPartition(name, 1)}
        if version >= 3:
            assert group.operations in (ALL_OF_A_GROUP, OLDER)
        else:
            assert group.operations is None
        assert told.done()[f"{name}-none"].state == "Dead"


def test_every_version_describes_a_group_of_the_new_protocol(cluster: Any, each_version: Any, kafka: Any, join: Join):
    name = kafka.topic(partitions=2)
    join(kafka.bootstrap_servers, name, name, group_protocol="consumer", client_rack="here", group_instance_id="s1")
    for _ in each_version(cluster, ConsumerGroupDescribeRequest):
        group = describe_group(cluster, name, operations=True)
        assert (group.type, group.state, group.assignor) == ("consumer", "Stable", "uniform")
        assert group.epoch >= 1
        assert group.operations == ALL_OF_A_GROUP
        [member] = group.members
        assert (member.instance_id, member.rack, member.epoch) == ("s1", "here", group.epoch)
        assert member.assignment == {TopicPartition(name, 0), TopicPartition(name, 1)}


@pytest.mark.rule(292)
def test_every_version_lists_and_filters_groups(any_cluster: Any, each_version: Any, name: str, join: Join):
    create_topics(any_cluster, [NewTopic(name, 1, 1)]).or_raise()
    empty = f"{name}-empty"
    commit_offsets(any_cluster, empty, {TopicPartition(name, 0): CommittedOffset(0)})
    join(servers(any_cluster), name, name)

    def listed(**filters: Any) -> dict[str, tuple[str, str]]:
        [groups] = list_groups(any_cluster, **filters).or_raise().values()
        return {group.group: (group.type, group.state) for group in groups if group.group in (name, empty)}

    for version in each_version(any_cluster, ListGroupsRequest):
        kind = "classic" if version >= 5 else ""
        states = ("Stable", "Empty") if version >= 4 else ("", "")
        assert listed() == {name: (kind, states[0]), empty: (kind, states[1])}
        if version >= 4:
            assert set(listed(states=["Stable"])) == {name}
            assert set(listed(states=["Empty", "Dead"])) == {empty}
        else:
            assert isinstance(list_groups(any_cluster, states=["Empty"])[1], UnsupportedVersion)
        if version >= 5:
            assert listed(types=["consumer"]) == {}
            assert set(listed(types=["classic"], states=["Empty"])) == {empty}
        else:
            assert isinstance(list_groups(any_cluster, types=["classic"])[1], UnsupportedVersion)


def test_another_client_lists_the_same_groups(cluster: Any, kafka: Any, name: str):
    # Groups of other tests on this broker come and go meanwhile.
    groups = {f"{name}-{number}" for number in range(3)}
    tp = TopicPartition(kafka.topic(), 0)
    for group in groups:
        commit_offsets(cluster, group, {tp: CommittedOffset(0)})
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    theirs = {group.group_id for group in client.list_consumer_groups().result(30).valid}
    ours = {group.group for group in list_groups(cluster).or_raise()[1] if group.type in ("classic", "consumer")}
    assert {group for group in ours if group.startswith(name)} == groups
    assert {group for group in theirs if group.startswith(name)} == groups


@pytest.mark.rule(248)
def test_groups_are_found_at_whichever_broker_coordinates_them(three: Any, name: str):
    create_topics(three, [NewTopic(name, 1, 3)]).or_raise()
    groups = {f"{name}-{number}" for number in range(9)}
    for group in groups:
        commit_offsets(three, group, {TopicPartition(name, 0): CommittedOffset(5)})
    by_broker = list_groups(three).or_raise()
    assert set(by_broker) == {1, 2, 3}
    listed = [group.group for found in by_broker.values() for group in found if group.group in groups]
    assert sorted(listed) == sorted(groups)
    assert {found.state for found in describe_groups(three, groups).or_raise().values()} == {"Empty"}
    assert delete_groups(three, groups).failed() == {}
    assert {found.state for found in describe_groups(three, groups).or_raise().values()} == {"Dead"}


@pytest.mark.rule(318)
def test_every_version_deletes_groups_without_members(any_cluster: Any, each_version: Any, name: str, join: Join):
    create_topics(any_cluster, [NewTopic(name, 1, 1)]).or_raise()
    tp = TopicPartition(name, 0)
    join(servers(any_cluster), name, name)
    for _ in each_version(any_cluster, DeleteGroupsRequest):
        empty = f"{name}-empty"
        commit_offsets(any_cluster, empty, {tp: CommittedOffset(3)})
        results = delete_groups(any_cluster, [empty, name, f"{name}-none"])
        assert results[empty] is None
        assert {group: error.code for group, error in results.failed().items()} == {
            name: ErrorCode.NON_EMPTY_GROUP,
            f"{name}-none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert isinstance(results[name], GroupError)
        assert results.failed()[name].group == name
        assert committed_offsets(any_cluster, empty, [tp])[tp].offset == -1
    assert describe_group(any_cluster, name).state == "Stable"


def test_every_version_forgets_single_offsets(any_cluster: Any, each_version: Any, name: str, join: Join):
    create_topics(any_cluster, [NewTopic(name, 2, 1), NewTopic(f"{name}-read", 1, 1)]).or_raise()
    first, second, read = TopicPartition(name, 0), TopicPartition(name, 1), TopicPartition(f"{name}-read", 0)
    for _ in each_version(any_cluster, OffsetDeleteRequest):
        commit_offsets(any_cluster, name, {tp: CommittedOffset(7) for tp in (first, second, read)})
        join(servers(any_cluster), name, read.topic)
        none = TopicPartition(f"{name}-none", 0)
        results = delete_group_offsets(any_cluster, name, [first, read, none])
        assert results[first] is None
        assert results.failed()[read].code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert (results.failed()[read].topic, results.failed()[read].group) == (read.topic, name)
        assert results.failed()[none].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kept = committed_offsets(any_cluster, name, [first, second, read])
        assert {tp: offset.offset for tp, offset in kept.items()} == {first: -1, second: 7, read: 7}
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        delete_group_offsets(any_cluster, f"{name}-none", [first])


def test_every_version_removes_static_members(any_cluster: Any, each_version: Any, name: str):
    create_topics(any_cluster, [NewTopic(name, 1, 1)]).or_raise()
    group = ("group", name)
    for version in each_version(any_cluster, LeaveGroupRequest):
        if version < 3:
            with pytest.raises(UnsupportedVersion, match="static members"):
                remove_members(any_cluster, name, ["static"])
            continue
        joined = any_cluster.send(
            JoinGroupRequest(
                group_id=name,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                group_instance_id="static",
                protocol_type="other",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="p", metadata=b"mine")],
            ),
            coordinator=group,
        )
        assert joined.error_code == 0
        any_cluster.send(
            SyncGroupRequest(
                group_id=name,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id="static",
                protocol_type="other",
                protocol_name="p",
                assignments=[
                    SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x00\x01")
                ],
            ),
            coordinator=group,
        )
        # Another protocol type's bytes are its own business.
        [member] = describe_group(any_cluster, name).members
        assert (member.assignment, member.metadata, member.assigned) == (None, b"mine", b"\x00\x01")
        results = remove_members(any_cluster, name, ["static", "nobody"], reason="a test")
        assert results["static"] is None
        assert results.failed()["nobody"].code == ErrorCode.UNKNOWN_MEMBER_ID
        assert describe_group(any_cluster, name).state == "Empty"
