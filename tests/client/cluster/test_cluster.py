"""Bootstrap, routing, and what is learnt from errors, against scripted brokers on real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client import BrokerUnavailable, LeaderNotAvailable, ProtocolFault, TopicPartition, UnknownTopic, list_offsets
from kseg.client.errors import error_from_code
from kseg.client.groups.offsets import committed_offsets
from kseg.client.offsets import LATEST
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.fetch import ListOffsetsRequest
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kseg.client.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse

TP = TopicPartition("t", 0)


@pytest.fixture
def deaf_port() -> Iterator[Callable[[], int]]:
    """`deaf_port()`: a port that refuses connections, and that nobody else gets meanwhile."""
    held: list[socket.socket] = []

    def hold() -> int:
        held.append(socket.socket())
        held[-1].bind(("127.0.0.1", 0))
        port: int = held[-1].getsockname()[1]
        return port

    yield hold
    for one in held:
        one.close()


def latest(cluster: Any, *partitions: TopicPartition) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions or (TP,), LATEST), isolation_level="read_uncommitted")
    return {tp: listed.offset for tp, listed in found.items()}


# -- bootstrap


@pytest.mark.rule(23)
def test_bootstrap_goes_on_to_the_next_server(fake: Any, connect: Any, deaf_port: Any):
    for _ in range(3):  # the order is random
        cluster = connect(f"127.0.0.1:{deaf_port()},{fake.bootstrap_servers},127.0.0.1:{deaf_port()}")
        assert cluster.metadata([]).cluster_id == "fake"


def test_a_bootstrap_server_that_is_no_kafka_is_passed_over(fake: Any, fakes: Any, connect: Any):
    other = fakes.start()
    other.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    for _ in range(3):
        assert connect(f"{other.bootstrap_servers},{fake.bootstrap_servers}").metadata([]).cluster_id == "fake"


def test_if_no_server_is_a_kafka_that_is_told_at_once(fake: Any, connect: Any):
    fake.on(ApiVersionsRequest, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    started = time.monotonic()
    with pytest.raises(ProtocolFault, match="speaks HTTP"):
        connect(fake.bootstrap_servers).metadata([])
    assert time.monotonic() - started < 20


@pytest.mark.rule(23)
def test_servers_that_are_all_away_are_tried_until_the_deadline(connect: Any, deaf_port: Any):
    first, second = deaf_port(), deaf_port()
    cluster = connect(f"127.0.0.1:{first},127.0.0.1:{second}", default_api_timeout_ms=2000)
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable) as caught:
        cluster.metadata([])
    assert 0.2 < time.monotonic() - started < 20
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    assert caught.value.retriable


def test_a_server_that_comes_up_meanwhile_is_found(fakes: Any, connect: Any):
    broker = fakes.start()
    answers = iter([fakes.CLOSE, fakes.CLOSE])
    broker.on(ApiVersionsRequest, lambda _: next(answers), lambda _: next(answers), broker.api_versions)
    assert connect(broker.bootstrap_servers).metadata([]).cluster_id == "fake"


@pytest.mark.rule(9)
def test_the_bootstrap_connection_goes_on_as_the_brokers_own(fake: Any, connect: Any):
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    cluster = connect(fake.bootstrap_servers)
    cluster.metadata([])
    cluster.send(ListGroupsRequest(), broker=1)
    assert fake.connections == 1


def test_start_over_from_the_list_when_no_known_broker_answers(fake: Any, fakes: Any, connect: Any):
    """The only broker that the cluster told of goes away; the list still has one that answers."""
    gone = fakes.start()
    fake.brokers = [(9, gone.host, gone.port)]
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    gone.on(ListGroupsRequest, lambda _: ListGroupsResponse(error_code=7))
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=5000)
    assert list(cluster.metadata([]).brokers) == [9]
    gone.stop()
    fake.brokers = None
    cluster.send(ListGroupsRequest())
    assert len(fake.requests(ListGroupsRequest)) == 1


def test_recovery_strategy_none_stays_with_the_known_brokers(fake: Any, fakes: Any, connect: Any):
    gone = fakes.start()
    fake.brokers = [(9, gone.host, gone.port)]
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=2000, metadata_recovery_strategy="none")
    cluster.metadata([])
    gone.stop()
    with pytest.raises(BrokerUnavailable):
        cluster.metadata(["t"])
    assert len(fake.requests(MetadataRequest)) == 1


def test_rebootstrap_required_starts_over_from_the_list(fake: Any, fakes: Any, connect: Any):
    outdated = fakes.start()
    fake.brokers = [(9, outdated.host, outdated.port)]
    outdated.on(MetadataRequest, lambda _: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    cluster = connect(fake.bootstrap_servers)
    cluster.metadata([])
    fake.brokers = None
    assert list(cluster.metadata(["t"]).brokers) == [1]
    assert len(outdated.requests(MetadataRequest)) == 1
    assert len(fake.requests(MetadataRequest)) == 2


def test_a_broker_that_lists_no_brokers_is_not_believed(fake: Any, connect: Any):
    fake.on(MetadataRequest, lambda _: MetadataResponse(), fake.metadata)
    assert list(connect(fake.bootstrap_servers).metadata([]).brokers) == [1]


# -- metadata


@pytest.mark.rule(26)
def test_metadata_comes_from_the_cache_until_it_is_too_old(fake: Any, connect: Any):
    fake.add_topic("t", [1])
    cluster = connect(fake.bootstrap_servers)
    for _ in range(5):
        cluster.metadata(["t"])
    assert len(fake.requests(MetadataRequest)) == 1
    cluster.metadata(["t"], refresh=True)
    assert len(fake.requests(MetadataRequest)) == 2
    forgetful = connect(fake.bootstrap_servers, metadata_max_age_ms=20)
    for _ in range(2):
        time.sleep(0.03)
        forgetful.metadata(["t"])
    assert len(fake.requests(MetadataRequest)) == 4


@pytest.mark.rule(27)
def test_a_broken_connection_refreshes_the_metadata(fake: Any, connect: Any, fakes: Any):
    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, lambda _: fakes.CLOSE, fakes.answers.list_offsets())
    cluster = connect(fake.bootstrap_servers)
    assert latest(cluster) == {TP: 42}
    assert len(fake.requests(MetadataRequest)) == 2


@pytest.mark.rule(28, 270)
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_error_codes_that_say_so_refresh_the_metadata(fakes: Any, fake: Any, connect: Any, code: ErrorCode):
    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets(code), fakes.answers.list_offsets())
    assert latest(connect(fake.bootstrap_servers)) == {TP: 42}
    assert len(fake.requests(MetadataRequest)) == 2


@pytest.mark.rule(30)
def test_other_retriable_codes_are_tried_again_without(fakes: Any, fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(
        ListOffsetsRequest, fakes.answers.list_offsets(ErrorCode.OFFSET_NOT_AVAILABLE), fakes.answers.list_offsets()
    )
    assert latest(connect(fake.bootstrap_servers)) == {TP: 42}
    assert len(fake.requests(MetadataRequest)) == 1


def test_codes_that_are_not_retriable_are_raised_at_once(fakes: Any, fake: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(Exception, match="topic=t, partition=0") as caught:
        latest(connect(fake.bootstrap_servers))
    assert type(caught.value) is type(error_from_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"))
    assert len(fake.requests(ListOffsetsRequest)) == 1


# -- leaders


@pytest.mark.rule(30, 37)
def test_a_moved_leader_is_followed(fake: Any, fakes: Any, connect: Any):
    second = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    fake.add_topic("t", [1], epoch=4)

    def moved(seen: Any) -> Any:
        fake.add_topic("t", [2], epoch=5)
        second.topics, second.brokers = fake.topics, fake.brokers
        return fakes.answers.list_offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER)(seen)

    fake.on(ListOffsetsRequest, moved)
    second.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=7))
    assert latest(connect(fake.bootstrap_servers)) == {TP: 7}
    [asked] = second.requests(ListOffsetsRequest)
    assert asked.request.topics[0].partitions[0].current_leader_epoch == 5


@pytest.mark.rule(36, 56, 172)
def test_each_leader_is_asked_once_for_all_that_it_leads(fake: Any, fakes: Any, connect: Any):
    second = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    fake.add_topic("t", [1, 2, 1, 2])
    for broker in (fake, second):
        broker.on(ListOffsetsRequest, fakes.answers.list_offsets(offset=broker.port))
    partitions = [TopicPartition("t", number) for number in range(4)]
    found = latest(connect(fake.bootstrap_servers), *partitions)
    assert [found[tp] for tp in partitions] == [fake.port, second.port, fake.port, second.port]
    assert len(fake.requests(ListOffsetsRequest)) == len(second.requests(ListOffsetsRequest)) == 1


def test_what_one_leader_has_answered_is_not_asked_again_for_anothers_failure(fake: Any, fakes: Any, connect: Any):
    second = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    fake.add_topic("t", [1, 2])
    second.topics, second.brokers = fake.topics, fake.brokers
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets())
    second.on(ListOffsetsRequest, lambda _: fakes.CLOSE, fakes.answers.list_offsets())
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert len(latest(connect(fake.bootstrap_servers), *partitions)) == 2
    assert len(fake.requests(ListOffsetsRequest)) == 1
    assert len(second.requests(ListOffsetsRequest)) == 2


@pytest.mark.parametrize(("leader", "words"), [(-1, "no leader"), (5, "broker 5")])
def test_a_missing_leader_is_waited_for_and_then_named(fake: Any, connect: Any, leader: int, words: str):
    fake.add_topic("t", [leader])
    cluster = connect(fake.bootstrap_servers, default_api_timeout_ms=4000, retry_backoff_ms=50)
    with pytest.raises(LeaderNotAvailable, match=words) as caught:
        latest(cluster)
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert caught.value.retriable
    assert len(fake.requests(MetadataRequest)) >= 3


@pytest.mark.rule(32)
def test_a_leader_that_appears_is_found(fakes: Any, fake: Any, connect: Any):
    fake.add_topic("t", [-1])

    def elected(seen: Any) -> Any:
        fake.add_topic("t", [1], epoch=1)
        return fake.metadata(seen)

    fake.on(MetadataRequest, fake.metadata, fake.metadata, elected)
    fake.on(ListOffsetsRequest, fakes.answers.list_offsets())
    assert latest(connect(fake.bootstrap_servers)) == {TP: 42}


@pytest.mark.rule(47)
def test_an_unknown_topic_is_waited_for_and_then_told(fake: Any, connect: Any):
    with pytest.raises(UnknownTopic) as caught:
        latest(connect(fake.bootstrap_servers, default_api_timeout_ms=4000))
    assert caught.value.topic == "t"
    assert len(fake.requests(MetadataRequest)) >= 2


# -- coordinators


def fetched(code: int = 0) -> Any:
    def answer(seen: Any) -> OffsetFetchResponse:
        group = seen.request.groups[0].group_id
        return OffsetFetchResponse(
            groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group, error_code=code)]
        )

    return answer


@pytest.mark.rule(10)
def test_coordinators_have_a_connection_of_their_own(fake: Any, connect: Any):
    fake.on(OffsetFetchRequest, fetched())
    cluster = connect(fake.bootstrap_servers)
    committed_offsets(cluster, "g")
    committed_offsets(cluster, "g")
    connections = {type(seen.request): seen.connection for seen in fake.seen}
    assert connections[OffsetFetchRequest] != connections[MetadataRequest]
    assert fake.connections == 2
    assert len(fake.requests(FindCoordinatorRequest)) == 1


@pytest.mark.rule(181, 183)
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_is_none_any_more_is_looked_up_anew(fake: Any, connect: Any, code: ErrorCode):
    fake.on(OffsetFetchRequest, fetched(code), fetched())
    committed_offsets(connect(fake.bootstrap_servers), "g")
    assert len(fake.requests(FindCoordinatorRequest)) == 2


@pytest.mark.rule(183)
def test_a_coordinator_that_is_loading_is_asked_again(fake: Any, connect: Any):
    fake.on(OffsetFetchRequest, fetched(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), fetched())
    committed_offsets(connect(fake.bootstrap_servers), "g")
    assert len(fake.requests(FindCoordinatorRequest)) == 1
    assert len(fake.requests(OffsetFetchRequest)) == 2


def test_a_coordinator_that_went_away_is_looked_up_anew(fake: Any, fakes: Any, connect: Any):
    gone = fakes.start()

    def elsewhere(seen: Any) -> FindCoordinatorResponse:
        found = fake.find_coordinator(seen)
        found.coordinators[0].node_id, found.coordinators[0].port = 2, gone.port
        return found

    gone.stop()
    fake.on(FindCoordinatorRequest, elsewhere, fake.find_coordinator)
    fake.on(OffsetFetchRequest, fetched())
    committed_offsets(connect(fake.bootstrap_servers), "g")
    assert len(fake.requests(FindCoordinatorRequest)) == 2


@pytest.mark.rule(183)
def test_a_coordinator_that_does_not_exist_yet_is_waited_for(fake: Any, connect: Any):
    def none_yet(seen: Any) -> FindCoordinatorResponse:
        found = fake.find_coordinator(seen)
        found.coordinators[0].error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return found

    fake.on(FindCoordinatorRequest, none_yet, none_yet, fake.find_coordinator)
    fake.on(OffsetFetchRequest, fetched())
    committed_offsets(connect(fake.bootstrap_servers), "g")
    assert len(fake.requests(FindCoordinatorRequest)) == 3


@pytest.mark.rule(179, 181, 286)
@pytest.mark.parametrize("version", [0, 1, 3, 4, 6])
def test_coordinators_are_found_by_every_version(fake: Any, connect: Any, version: int):
    fake.ranges[FindCoordinatorRequest.KEY] = (0, version)
    fake.on(OffsetFetchRequest, fetched())
    committed_offsets(connect(fake.bootstrap_servers), "g")
    [seen] = fake.requests(FindCoordinatorRequest)
    assert seen.version == version
    assert "g" in (seen.request.key, *seen.request.coordinator_keys)


# -- connections


def test_closing_the_cluster_closes_every_connection(fake: Any, connect: Any):
    cluster = connect(fake.bootstrap_servers)
    cluster.metadata([])
    own = cluster.retry(lambda deadline: cluster.open_connection(cluster.metadata([]).brokers[1], deadline))
    cluster.close()
    assert own.closed
    assert cluster.metadata([], refresh=True).cluster_id == "fake"


def test_an_answer_left_behind_by_an_interrupted_call_is_never_taken_for_another(fake: Any, connect: Any, fakes: Any):
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(error_code=0))
    cluster = connect(fake.bootstrap_servers)
    broker = cluster.metadata([]).brokers[1]

    def leave_behind(deadline: Any) -> None:
        cluster.connection(broker, deadline).send(ListGroupsRequest(), 5, deadline=deadline)

    cluster.retry(leave_behind)
    assert cluster.metadata([], refresh=True).cluster_id == "fake"
    assert fake.connections == 2


@pytest.mark.rule(44, 252)
def test_the_controller_is_asked_what_only_it_may_do(fake: Any, fakes: Any, connect: Any):
    controller = fakes.start()
    controller.node_id = 2
    fake.brokers = controller.brokers = [(1, fake.host, fake.port), (2, controller.host, controller.port)]

    def metadata(seen: Any) -> MetadataResponse:
        response = fake.metadata(seen)
        response.controller_id = 2
        return response

    fake.on(MetadataRequest, metadata)
    for broker in (fake, controller):
        broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    connect(fake.bootstrap_servers).send(ListGroupsRequest(), controller=True)
    assert len(controller.requests(ListGroupsRequest)) == 1
    assert not fake.requests(ListGroupsRequest)
