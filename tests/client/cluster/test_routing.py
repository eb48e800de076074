"""Which broker a request goes to, which one is asked when that has moved, and what is learnt without asking."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from kseg.client import BrokerUnavailable, ConfigError, KafkaError, TopicPartition, UnsupportedVersion, list_offsets
from kseg.client.cluster.broadcast import broadcast
from kseg.client.cluster.metadata import LeaderHint
from kseg.client.errors import AuthorizationFailed, SomeBrokersFailed, error_from_code
from kseg.client.groups.descriptions import list_groups
from kseg.client.groups.offsets import committed_offsets
from kseg.client.offsets import LATEST
from kseg.client.producer import produce
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import ListOffsetsRequest
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kseg.client.protocol.messages.offsets import OffsetFetchRequest
from kseg.client.protocol.messages.produce import ProduceRequest, ProduceResponse
from kseg.segment_reader.encode.batches import Record, encode_batch

TP = TopicPartition("t", 0)


def latest(cluster: Any, tp: TopicPartition = TP) -> int:
    return list_offsets(cluster, {tp: LATEST}, isolation_level="read_uncommitted")[tp].offset


def groups(*names: str, code: int = 0) -> Any:
    entry = ListGroupsResponse.ListedGroup
    return lambda _: ListGroupsResponse(error_code=code, groups=[entry(group_id=name) for name in names])


def refused(response: Any) -> None:
    if response.error_code:
        raise error_from_code(response.error_code, "ListGroups")


# -- each is found again when it moves


@pytest.mark.rule(261)
def test_the_leader_is_found_again_when_it_moves(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.add_topic("t", [1])
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    brokers.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=1))
    assert latest(cluster) == 1
    brokers.move_leader("t", 0, 3)
    brokers[1].on(ListOffsetsRequest, fakes.answers.list_offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert latest(cluster) == 1
    assert brokers.requests(ListOffsetsRequest) == {1: 2, 3: 1}


@pytest.mark.rule(252)
def test_the_controller_is_found_again_when_it_moves(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, groups())
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    cluster.send(ListGroupsRequest(), controller=True, check=refused)
    brokers.move_controller(2)
    brokers[1].on(ListGroupsRequest, groups(code=ErrorCode.NOT_CONTROLLER))
    cluster.send(ListGroupsRequest(), controller=True, check=refused)
    assert brokers.requests(ListGroupsRequest) == {1: 2, 2: 1}


def test_a_coordinator_is_found_again_when_it_moves(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.move_coordinator("g", 2)
    brokers.on(OffsetFetchRequest, fakes.answers.offset_fetch())
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    committed_offsets(cluster, "g")
    brokers.move_coordinator("g", 3)
    brokers[2].on(OffsetFetchRequest, fakes.answers.offset_fetch(ErrorCode.NOT_COORDINATOR))
    committed_offsets(cluster, "g")
    assert brokers.requests(OffsetFetchRequest) == {2: 2, 3: 1}
    assert sum(brokers.requests(FindCoordinatorRequest).values()) == 2


@pytest.mark.rule(179, 180)
def test_groups_and_transactions_are_asked_for_by_their_type(fakes: Any, connect: Any):
    brokers = fakes.cluster(1)
    cluster = connect(brokers.bootstrap_servers)
    cluster.retry(lambda deadline: cluster.coordinator(("group", "x"), deadline))
    cluster.retry(lambda deadline: cluster.coordinator(("transaction", "x"), deadline))
    assert [seen.request.key_type for seen in brokers[1].requests(FindCoordinatorRequest)] == [0, 1]


@pytest.mark.rule(310)
def test_a_named_broker_is_asked_and_no_other(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, groups())
    connect(brokers.bootstrap_servers).send(ListGroupsRequest(), broker=2)
    assert brokers.requests(ListGroupsRequest) == {2: 1}


@pytest.mark.rule(33)
def test_a_broker_that_the_cluster_does_not_list_is_waited_for_and_named(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    cluster = connect(brokers.bootstrap_servers, default_api_timeout_ms=2000, retry_backoff_ms=20)
    with pytest.raises(BrokerUnavailable, match="not in the cluster") as caught:
        cluster.send(ListGroupsRequest(), broker=9)
    assert caught.value.broker == "9"


# -- every broker


@pytest.mark.rule(248)
def test_every_broker_is_asked_and_the_answers_are_one(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    for number, broker in enumerate(brokers, 1):
        broker.on(ListGroupsRequest, groups(f"g{number}", "everywhere"))
    found = list_groups(connect(brokers.bootstrap_servers)).or_raise()
    assert {node: [listed.group for listed in groups] for node, groups in found.items()} == {
        number: [f"g{number}", "everywhere"] for number in (1, 2, 3)
    }
    assert brokers.requests(ListGroupsRequest) == {1: 1, 2: 1, 3: 1}


def test_the_brokers_work_at_the_same_time(fakes: Any, connect: Any):
    together = threading.Barrier(3)

    def slow(seen: Any) -> Any:
        together.wait(30)  # one after the other, the first would wait for ever
        return groups("g")(seen)

    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, slow)
    cluster = connect(brokers.bootstrap_servers)
    cluster.metadata([])
    assert len(broadcast(cluster, ListGroupsRequest()).answers) == 3


def test_one_brokers_failure_is_told_as_that_brokers_and_the_others_answers_are_kept(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, groups("g"))
    brokers[2].on(ListGroupsRequest, groups(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    cluster = connect(brokers.bootstrap_servers)
    result = broadcast(cluster, ListGroupsRequest(), check=refused)
    assert set(result.answers) == {1, 3}
    assert {node: type(error) for node, error in result.errors.items()} == {2: AuthorizationFailed}
    with pytest.raises(SomeBrokersFailed, match=r"1 of 3 brokers failed: broker 2: .*CLUSTER_AUTHORIZATION") as caught:
        result.whole("ListGroups")
    assert set(caught.value.answers) == {1, 3}
    assert not caught.value.retriable
    listed = list_groups(cluster)
    assert set(listed.done()) == {1, 3}
    assert isinstance(listed[2], AuthorizationFailed)


def test_only_who_failed_for_the_moment_is_asked_again(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, groups("g"))
    loading = groups(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    brokers[2].on(ListGroupsRequest, loading, lambda _: fakes.CLOSE, groups("late"))
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    result = broadcast(cluster, ListGroupsRequest(), check=refused)
    assert not result.errors
    assert brokers.requests(ListGroupsRequest) == {1: 1, 2: 3, 3: 1}


def test_a_dead_broker_does_not_keep_the_others_answers_back_for_longer_than_asked(fakes: Any, connect: Any):
    brokers = fakes.cluster(3)
    brokers.on(ListGroupsRequest, groups("g"))
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=20)
    cluster.metadata([])
    brokers[3].stop()
    result = broadcast(cluster, ListGroupsRequest(), timeout=5)
    assert set(result.answers) == {1, 2}
    assert isinstance(result.errors[3], BrokerUnavailable)
    assert result.errors[3].retriable


# -- metadata


@pytest.mark.rule(31)
def test_administrators_always_ask_and_leave_the_cache_alone(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1])
    cluster = connect(brokers.bootstrap_servers)
    assert cluster.metadata(["t"]).topics["t"].partitions[0].leader_id == 1
    brokers.move_leader("t", 0, 2)
    brokers.add_topic("new", [1], topic_id=UUID(int=8))
    before = sum(brokers.requests(MetadataRequest).values())
    told = cluster.retry(lambda deadline: cluster.ask_metadata_now(["t", "new"], deadline))
    assert told.topics["t"].partitions[0].leader_id == 2
    assert told.topics["new"].error is None
    assert sum(brokers.requests(MetadataRequest).values()) == before + 1
    brokers.on(ListGroupsRequest, groups())
    assert set(broadcast(cluster, ListGroupsRequest()).answers) == {1, 2}
    asked = sum(brokers.requests(MetadataRequest).values())
    assert cluster.metadata(["t"]).topics["t"].partitions[0].leader_id == 1
    assert sum(brokers.requests(MetadataRequest).values()) == asked


@pytest.mark.rule(29)
def test_metadata_is_asked_for_anew_after_its_age(fakes: Any, connect: Any):
    brokers = fakes.cluster(1)
    brokers.add_topic("t", [1])
    cluster = connect(brokers.bootstrap_servers, metadata_max_age_ms=50)
    for _ in range(3):
        cluster.metadata(["t"])
        time.sleep(0.06)
    assert brokers.requests(MetadataRequest) == {1: 3}


@pytest.mark.rule(40)
@pytest.mark.parametrize("version", range(14))
def test_no_version_of_metadata_creates_a_topic(fake: Any, connect: Any, version: int):
    fake.ranges[MetadataRequest.KEY] = (0, version)
    fake.add_topic("t", [1])
    assert connect(fake.bootstrap_servers).metadata(["t"]).topics["t"].error is None
    [seen] = fake.requests(MetadataRequest)
    if version >= 4:
        assert seen.request.allow_auto_topic_creation is False
    else:
        assert seen.request.topics == ([] if version == 0 else None)  # all of them: to ask for one would create it


def test_a_connection_begins_with_versions_and_a_new_one_to_a_known_broker_asks_no_metadata(fake: Any, connect: Any):
    fake.on(ListGroupsRequest, groups())
    cluster = connect(fake.bootstrap_servers, connections_max_idle_ms=1000)
    cluster.send(ListGroupsRequest(), broker=1)
    time.sleep(1.1)
    cluster.send(ListGroupsRequest(), broker=1)
    order = [(seen.connection, type(seen.request).__name__.removesuffix("Request")) for seen in fake.seen]
    assert order == [(0, "ApiVersions"), (0, "Metadata"), (0, "ListGroups"), (1, "ApiVersions"), (1, "ListGroups")]


@pytest.mark.rule(275)
def test_a_partition_with_replicas_that_are_away_has_its_leader_all_the_same(fake: Any, fakes: Any, connect: Any):
    """Code 9 in Metadata is no error of ours; the dead replicas stay named, though no broker of theirs is listed."""
    fake.add_topic("t", [1])
    [partition] = fake.topics["t"].partitions
    partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    partition.replica_nodes, partition.offline_replicas = [1, 5, 9], [5, 9]
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=4))
    cluster = connect(fake.bootstrap_servers)
    assert latest(cluster) == 4
    told = cluster.metadata(["t"])
    assert told.topics["t"].partitions[0].replicas == (1, 5, 9)
    assert list(told.brokers) == [1]


def test_one_connection_serves_all_that_is_asked_of_a_broker(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 2])
    brokers.on(ListOffsetsRequest, fakes.answers.list_offsets())
    brokers.on(ListGroupsRequest, groups())
    cluster = connect(brokers.bootstrap_servers)
    for _ in range(5):
        latest(cluster)
        latest(cluster, TopicPartition("t", 1))
        broadcast(cluster, ListGroupsRequest())
        cluster.metadata(refresh=True)
    assert [broker.connections for broker in brokers] == [1, 1]


@pytest.mark.rule(24, 25)
def test_a_name_with_several_addresses_is_one_server_with_several_doors(
    fake: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
):
    def getaddrinfo(host: str, port: int, *, type: int, flags: int) -> list[object]:
        if host != "brokers.test":
            addresses = [host]
        elif flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        else:
            addresses = ["127.0.0.9", "127.0.0.1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert connect(f"brokers.test:{fake.port}").metadata([]).cluster_id == "fake"


# -- what an answer tells of leaders (KIP-951)


def moved_to(fakes: Any, number: int, epoch: int, *, endpoints: list[Any] | None = None) -> Any:
    leader = ProduceResponse.LeaderIdAndEpoch(leader_id=number, leader_epoch=epoch)
    return fakes.answers.produce(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, partition={"current_leader": leader}, node_endpoints=endpoints or []
    )


BATCH = encode_batch([Record(value=b"v")], producer_id=5, producer_epoch=0, base_sequence=0)


def test_a_leader_told_by_the_answer_is_asked_at_once_and_without_metadata(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1])
    brokers.on(ProduceRequest, fakes.answers.produce())
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    cluster.metadata(["t"])
    brokers[1].on(ProduceRequest, moved_to(fakes, 2, 1))
    asked = sum(brokers.requests(MetadataRequest).values())
    started = time.monotonic()
    assert produce(cluster, {TP: BATCH})[TP].base_offset == 7
    assert time.monotonic() - started < 8
    assert brokers.requests(ProduceRequest) == {1: 1, 2: 1}
    assert sum(brokers.requests(MetadataRequest).values()) == asked


def test_a_new_broker_is_reached_by_the_endpoint_in_the_answer(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1])
    brokers[1].brokers = [(1, brokers[1].host, brokers[1].port)]  # nobody has told of broker 2
    brokers[2].on(ProduceRequest, fakes.answers.produce())
    endpoint = ProduceResponse.NodeEndpoint(node_id=2, host=brokers[2].host, port=brokers[2].port)
    brokers[1].on(ProduceRequest, moved_to(fakes, 2, 1, endpoints=[endpoint]))
    cluster = connect(brokers[1].bootstrap_servers)
    assert produce(cluster, {TP: BATCH})[TP].base_offset == 7
    assert brokers.requests(MetadataRequest) == {1: 1}


def test_an_older_hint_is_no_news_and_metadata_is_asked(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1])
    brokers.on(ProduceRequest, fakes.answers.produce())
    brokers[1].on(ProduceRequest, moved_to(fakes, 2, 0), fakes.answers.produce())
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    produce(cluster, {TP: BATCH})
    assert sum(brokers.requests(MetadataRequest).values()) == 2
    assert brokers.requests(ProduceRequest) == {1: 2}


def test_only_the_partitions_of_a_moved_leader_are_sent_again(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1, 1, 1])
    good, moved = fakes.answers.produce(), fakes.answers.produce(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def one_has_moved(seen: Any) -> Any:
        response = good(seen)
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.index == 1:
                    partition.error_code = moved(seen).responses[0].partition_responses[0].error_code
        brokers.move_leader("t", 1, 2)
        return response

    brokers[1].on(ProduceRequest, one_has_moved)
    brokers[2].on(ProduceRequest, good)
    cluster = connect(brokers.bootstrap_servers, retry_backoff_ms=1)
    assert len(produce(cluster, {TopicPartition("t", number): BATCH for number in range(3)})) == 3
    [again] = brokers[2].requests(ProduceRequest)
    assert [p.index for topic in again.request.topic_data for p in topic.partition_data] == [1]
    assert brokers.requests(ProduceRequest) == {1: 1, 2: 1}


def test_a_hint_about_something_unknown_changes_nothing(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    cluster = connect(fake.bootstrap_servers)
    cluster.metadata(["t"])
    for tp, leader in ((TopicPartition("t", 9), 1), (TopicPartition("x", 0), 1), (TP, 7)):
        assert not cluster.learn_leader(LeaderHint(tp, leader, 5, {}))
    assert cluster.learn_leader(LeaderHint(TP, 1, 5, {}))


# -- controllers


@pytest.mark.rule(253)
def test_controllers_are_asked_directly(fakes: Any, connect: Any):
    first, second = fakes.start(), fakes.start()
    nodes = [
        DescribeClusterResponse.DescribeClusterBroker(broker_id=number, host=node.host, port=node.port)
        for number, node in ((1001, first), (1002, second))
    ]

    def told(seen: Any) -> Any:
        assert seen.request.endpoint_type == 2
        return DescribeClusterResponse(endpoint_type=2, cluster_id="quorum", controller_id=1002, brokers=nodes)

    for node in (first, second):
        del node.ranges[MetadataRequest.KEY]
        node.on(DescribeClusterRequest, told)
        node.on(ListGroupsRequest, groups())
    cluster = connect("", bootstrap_controllers=f"{first.bootstrap_servers}")
    assert set(cluster.metadata([]).brokers) == {1001, 1002}
    cluster.send(ListGroupsRequest(), controller=True)
    assert len(second.requests(ListGroupsRequest)) == 1
    cluster.send(ListGroupsRequest(), broker=1001)
    assert len(first.requests(ListGroupsRequest)) == 1
    with pytest.raises(UnsupportedVersion, match=r"bootstrap\.servers"):
        cluster.metadata(["t"])


@pytest.mark.rule(253)
def test_a_broker_among_the_controllers_says_that_it_is_none(fake: Any, connect: Any):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    fake.on(DescribeClusterRequest, lambda _: DescribeClusterResponse(error_code=code, error_message="a broker"))
    with pytest.raises(KafkaError, match="MISMATCHED_ENDPOINT_TYPE"):
        connect("", bootstrap_controllers=fake.bootstrap_servers).metadata([])


def test_servers_and_controllers_together_are_refused(connect: Any):
    with pytest.raises(ConfigError, match=r"cannot be combined with bootstrap.controllers"):
        connect("localhost:9092", bootstrap_controllers="localhost:9093")


def test_a_topic_that_a_broker_does_not_know_is_asked_for_at_another(fakes: Any, connect: Any):
    """The first one may be cut off from the controller, and never hear of it."""
    brokers = fakes.cluster(2)
    brokers.add_topic("t", [1])
    brokers[1].topics = {}
    cluster = connect(brokers[1].bootstrap_servers)
    assert cluster.metadata(["t"]).topics["t"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.metadata(["t"]).topics["t"].error is None
    assert brokers.requests(MetadataRequest) == {1: 1, 2: 1}
    cluster.metadata(["t", "missing"])
    cluster.metadata(["t", "missing"])
    assert brokers.requests(MetadataRequest) == {1: 2, 2: 2}, "in turn"
