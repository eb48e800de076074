"""Replicas move, moves are cancelled, leaders are elected; and a controller dies in the middle of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kseg.client import TopicPartition, UnsupportedVersion
from kseg.client.admin.describe import describe_topics
from kseg.client.admin.nodes import describe_quorum
from kseg.client.admin.placement import alter_reassignments, elect_leaders, list_reassignments
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kseg.client.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from kseg.segment_reader.encode.batches import Record
from sending import send_to
from skips import full_scale_only


def partition(cluster: Any, tp: TopicPartition) -> Any:
    return describe_topics(cluster, [tp.topic]).or_raise()[tp.topic].partitions[tp.partition]


@pytest.mark.rule(259)
@full_scale_only
def test_every_version_moves_replicas(three: Any, each_version: Any, name: str, until: Any):
    create_topics(three, [NewTopic(name, assignments=[[1, 2]])]).or_raise()
    tp = TopicPartition(name, 0)
    for version in each_version(three, AlterPartitionReassignmentsRequest):
        for replicas in ([2, 3], [1, 2]):
            alter_reassignments(three, {tp: replicas}).or_raise()
            assert until(lambda to=tuple(replicas): partition(three, tp).replicas == to)
            assert until(lambda: tp not in list_reassignments(three))
        more = {tp: [1, 2, 3]}
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="replication factor"):
                alter_reassignments(three, more, allow_replication_factor_change=False)
        else:
            refused = alter_reassignments(three, more, allow_replication_factor_change=False).failed()[tp]
            assert refused.code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.rule(259)
def test_a_move_under_way_is_listed_and_cancelled(three: Any, kafka3: Any, each_version: Any, name: str, until: Any):
    """It cannot end while the broker that it goes to is down."""
    create_topics(three, [NewTopic(name, assignments=[[1], [1]])]).or_raise()
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    kafka3.broker.kill(3)
    results = alter_reassignments(three, {first: [3], second: [77], TopicPartition(f"{name}-none", 0): [1]})
    assert results[first] is None
    assert results.failed()[second].code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert results.failed()[TopicPartition(f"{name}-none", 0)].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    for _ in each_version(three, ListPartitionReassignmentsRequest):
        under_way = until(lambda: list_reassignments(three, [first, second]))
        assert set(under_way) == {first}
        assert (set(under_way[first].replicas), under_way[first].adding, under_way[first].removing) == (
            {1, 3},
            (3,),
            (1,),
        )
        assert first in list_reassignments(three)
        assert list_reassignments(three, []) == {}

    cancelled = alter_reassignments(three, {first: None, second: None})
    assert cancelled[first] is None
    assert cancelled.failed()[second].code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert until(lambda: not list_reassignments(three, [first]))
    assert until(lambda: partition(three, first).replicas == (1,))


@pytest.mark.rule(319)
def test_every_version_elects_the_preferred_leader(three: Any, kafka3: Any, each_version: Any, name: str, until: Any):
    create_topics(three, [NewTopic(name, assignments=[[1, 2], [2, 3]])]).or_raise()
    led, other = TopicPartition(name, 0), TopicPartition(name, 1)
    # A broker that has just come back may not have led at first.
    assert until(lambda: not elect_leaders(three, "preferred", [led, other]).failed())
    assert until(lambda: (partition(three, led).leader, partition(three, other).leader) == (1, 2))
    for turn, version in enumerate(each_version(three, ElectLeadersRequest)):
        # The order of replicas is the preference: turning it round moves no data, and no leader.
        to = 1 if turn % 2 else 2
        alter_reassignments(three, {led: [to, 3 - to]}).or_raise()
        assert until(lambda to=to: partition(three, led).replicas[0] == to)
        none = TopicPartition(f"{name}-none", 0)
        results = elect_leaders(three, "preferred", [led, other, none])
        assert (results[led], results[other]) == (True, False)
        assert results.failed()[none].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert until(lambda to=to: partition(three, led).leader == to)
        assert led not in elect_leaders(three)  # None is all partitions: none of these needs it
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="only preferred leaders"):
                elect_leaders(three, "unclean", [led])
        else:
            assert elect_leaders(three, "unclean", [led])[led] is False


@pytest.mark.rule(319)
@full_scale_only
def test_an_unclean_leader_is_elected_only_when_it_is_asked_for(three: Any, kafka3: Any, name: str, until: Any):
    create_topics(three, [NewTopic(name, assignments=[[2, 3]], config={"min.insync.replicas": "1"})]).or_raise()
    tp = TopicPartition(name, 0)
    send_to(three, {tp: [Record(value=b"v")]})
    kafka3.broker.kill(3)
    assert until(lambda: partition(three, tp).in_sync == (2,))
    send_to(three, {tp: [Record(value=b"lost")]})
    kafka3.broker.kill(2)
    kafka3.broker.restart(3)
    assert until(lambda: partition(three, tp).leader == -1)
    preferred = elect_leaders(three, "preferred", [tp]).failed()[tp]
    assert preferred.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect_leaders(three, "unclean", [tp])[tp] is True
    assert until(lambda: partition(three, tp).leader == 3)


@full_scale_only
def test_topics_are_made_although_the_controller_dies(three: Any, kafka3: Any, name: str, until: Any):
    """The next controller is found, and each topic is made once."""
    victim = describe_quorum(three).leader_id
    names = [f"{name}-{number}" for number in range(12)]
    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(kafka3.broker.kill, victim)
        for topic in names:
            made = create_topics(three, [NewTopic(topic, partitions=1, replication_factor=2)]).or_raise()[topic]
            assert made.topic_id is not None
        dying.result()
    assert describe_quorum(three).leader_id != victim
    assert until(lambda: set(names) <= set(describe_topics(three).done()))


@pytest.mark.rule(252)
def test_who_is_no_controller_says_so_and_the_controller_is_asked(fakes: Any, connect: Any):
    """KRaft's brokers forward; those with ZooKeeper refuse, and the controller may have moved."""
    brokers = fakes.cluster(3)
    moved = CreateTopicsResponse.CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)

    def not_any_more(_: Any) -> Any:
        for broker in brokers:
            broker.controller_id = 2
        brokers.add_topic("t", [1])
        return CreateTopicsResponse(topics=[moved])

    done = CreateTopicsResponse.CreatableTopicResult(name="t", num_partitions=1)
    brokers[1].on(CreateTopicsRequest, not_any_more)
    brokers[2].on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=[done]))
    create_topics(connect(brokers.bootstrap_servers, retry_backoff_ms=1), [NewTopic("t", 1, 1)]).or_raise()
    assert brokers.requests(CreateTopicsRequest) == {1: 1, 2: 1}
