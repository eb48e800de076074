"""Groups as the real broker has them: none, empty, with live members, of both protocols."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from kseg.client import (
    CommittedOffset,
    TopicPartition,
    Transaction,
    commit_offsets,
    committed_offsets,
    describe_group,
    list_groups,
)
from kseg.client.groups.descriptions import GroupDescription, MemberDescription
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kseg.client.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kseg.client.protocol.messages.share_groups import ShareGroupDescribeRequest
from kseg.client.protocol.messages.streams_groups import StreamsGroupDescribeRequest

Join = Callable[[str, str, str], Any]


@pytest.fixture
def join(kafka: Any) -> Iterator[Join]:
    """`join(group, topic, protocol)`: a consumer that is a member, of the group protocol "classic" or "consumer"."""
    consumers: list[Any] = []

    def enter(group: str, topic: str, protocol: str) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": f"member-of-{protocol}",
            }
        )
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


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4()}"


@pytest.mark.rule(224)
def test_a_missing_group_is_dead(cluster: Any, group: str):
    described = describe_group(cluster, group)
    assert described == GroupDescription(group, "", "Dead", ())
    assert not described.has_members


@pytest.mark.rule(224, 231)
def test_a_group_of_offsets_alone_is_empty(cluster: Any, kafka: Any, group: str):
    commit_offsets(cluster, group, {TopicPartition(kafka.topic(), 0): CommittedOffset(0)})
    described = describe_group(cluster, group)
    assert described == GroupDescription(group, "classic", "Empty", ())
    assert not described.has_members


@pytest.mark.rule(4, 249)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_live_members_are_described(cluster: Any, kafka: Any, group: str, join: Join, protocol: str):
    consumer = join(group, kafka.topic(), protocol)
    described = describe_group(cluster, group)
    assert (described.type, described.state) == (protocol, "Stable")
    assert described.has_members
    [member] = described.members
    assert isinstance(member, MemberDescription)
    assert member.client_id == f"member-of-{protocol}"
    assert member.member_id
    assert member.client_host == "/127.0.0.1"
    [listed] = [listed for listed in list_groups(cluster, types=[protocol]).or_raise()[1] if listed.group == group]
    assert (listed.type, listed.state, listed.protocol_type) == (protocol, "Stable", "consumer")

    consumer.close()
    left = describe_group(cluster, group)
    assert (left.type, left.state, left.members) == (protocol, "Empty", ())
    assert not left.has_members


@pytest.mark.rule(191)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_broker_takes_a_transactional_commit_for_a_group_with_members(
    cluster: Any, kafka: Any, group: str, join: Join, protocol: str
):
    """Why whoever commits has to look at the group's members: nobody else does."""
    tp = TopicPartition(kafka.topic(), 0)
    join(group, tp.topic, protocol)
    with Transaction(cluster, group) as transaction:
        transaction.begin()
        transaction.commit_offsets(group, {tp: CommittedOffset(0, -1, "over their heads")})
        transaction.commit()
    assert committed_offsets(cluster, group, [tp])[tp].metadata == "over their heads"


def consumer_answer(code: int) -> Callable[[Any], ConsumerGroupDescribeResponse]:
    return lambda seen: ConsumerGroupDescribeResponse(
        groups=[ConsumerGroupDescribeResponse.DescribedGroup(group_id=seen.request.group_ids[0], error_code=code)]
    )


def classic_answer(code: int = 0, state: str = "") -> Callable[[Any], DescribeGroupsResponse]:
    return lambda seen: DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponse.DescribedGroup(group_id=seen.request.groups[0], error_code=code, group_state=state)
        ]
    )


@pytest.mark.parametrize("switched_off", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND, None])
def test_a_broker_without_the_consumer_protocol_is_asked_for_a_classic_group(
    fake: Any, connect: Any, switched_off: ErrorCode | None
):
    if switched_off is None:
        del fake.ranges[ConsumerGroupDescribeRequest.KEY]
    else:
        fake.on(ConsumerGroupDescribeRequest, consumer_answer(switched_off))
    fake.on(DescribeGroupsRequest, classic_answer(state="Empty"))
    assert describe_group(connect(fake.bootstrap_servers), "g") == GroupDescription("g", "classic", "Empty")


def test_a_missing_group_is_dead_for_old_brokers_too(fake: Any, connect: Any):
    for newer in (ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest):
        del fake.ranges[newer.KEY]
    fake.ranges[DescribeGroupsRequest.KEY] = (0, 5)
    fake.ranges[ListGroupsRequest.KEY] = (0, 4)
    fake.on(DescribeGroupsRequest, classic_answer(state="Dead"))
    assert describe_group(connect(fake.bootstrap_servers), "g") == GroupDescription("g", "", "Dead")


@pytest.mark.rule(6)
def test_a_group_of_a_type_without_members_here_is_taken_for_a_live_one(fake: Any, connect: Any):
    """A group that is not empty must not look as if nobody were in it."""
    del fake.ranges[ShareGroupDescribeRequest.KEY], fake.ranges[StreamsGroupDescribeRequest.KEY]
    fake.on(ConsumerGroupDescribeRequest, consumer_answer(ErrorCode.GROUP_ID_NOT_FOUND))
    fake.on(DescribeGroupsRequest, classic_answer(ErrorCode.GROUP_ID_NOT_FOUND))
    listed = ListGroupsResponse.ListedGroup(group_id="g", group_state="Stable", group_type="Share")
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(groups=[listed]))
    described = describe_group(connect(fake.bootstrap_servers), "g")
    assert described == GroupDescription("g", "share", "Stable")
    assert described.has_members


def test_errors_name_the_group(fake: Any, connect: Any):
    fake.on(ConsumerGroupDescribeRequest, consumer_answer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(Exception, match="group=g") as caught:
        describe_group(connect(fake.bootstrap_servers), "g")
    assert not caught.value.retriable  # type: ignore[attr-defined]


@pytest.mark.rule(4, 248)
def test_every_broker_lists_its_own_groups(fake: Any, fakes: Any, connect: Any):
    second = fakes.start()
    fake.brokers = [(1, fake.host, fake.port), (2, second.host, second.port)]
    for broker, name in ((fake, "b"), (second, "a")):
        listed = ListGroupsResponse.ListedGroup(group_id=name)
        broker.on(ListGroupsRequest, lambda _, listed=listed: ListGroupsResponse(groups=[listed]))
    listed_by = list_groups(connect(fake.bootstrap_servers)).or_raise()
    assert {node: [listed.group for listed in groups] for node, groups in listed_by.items()} == {1: ["b"], 2: ["a"]}
