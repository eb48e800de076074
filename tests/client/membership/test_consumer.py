"""A member of the new protocol (KIP-848) before a scripted coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kseg.client import (
    AuthorizationFailed,
    CommittedOffset,
    GroupError,
    OffsetCommitFailed,
    TopicPartition,
    UnsupportedVersion,
)
from kseg.client.membership.member import GroupMember
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse
from kseg.client.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

TP = TopicPartition
T, U = UUID(int=7), UUID(int=8)
Until = Callable[..., None]


class Coordinator:
    """Answers heartbeats: by default with the epoch, and with `target` once after it has changed."""

    def __init__(self, broker: Any) -> None:
        self.epoch = 1
        self.interval_ms = 30
        self._news: dict[UUID, list[int]] | None = None
        self.names = {T: "t", U: "u"}
        self._broker = broker
        for name, topic_id in (("t", T), ("u", U)):
            broker.add_topic(name, [1, 1, 1], topic_id=topic_id)
        broker.on(ConsumerGroupHeartbeatRequest, self.heartbeat)
        broker.on(MetadataRequest, self.metadata)

    @property
    def sends_heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return [seen.request for seen in self._broker.requests(ConsumerGroupHeartbeatRequest)]

    def assign(self, *, epoch: int | None = None, **topics: list[int]) -> None:
        """To be told with the next answer."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self._news = {{"t": T, "u": U}[name]: numbers for name, numbers in topics.items()}

    def heartbeat(self, seen: Any) -> ConsumerGroupHeartbeatResponse:
        response = ConsumerGroupHeartbeatResponse(
            member_id=seen.request.member_id or "given", heartbeat_interval_ms=self.interval_ms
        )
        response.member_epoch = self.epoch if seen.request.member_epoch >= 0 else seen.request.member_epoch
        if self._news is not None and seen.request.member_epoch >= 0:
            response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in self._news.items()
                ]
            )
            self._news = None
        return response

    def refuse(self, code: int, *, message: str | None = None) -> None:
        """The next heartbeat is refused, all after it are answered."""
        answer = ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
        self._broker.on(ConsumerGroupHeartbeatRequest, lambda _: answer, self.heartbeat)

    def metadata(self, seen: Any) -> MetadataResponse:
        asked = seen.request.topics or []
        if not any(topic.topic_id.int for topic in asked):
            answer: MetadataResponse = self._broker.metadata(seen)
            return answer
        answer = MetadataResponse(brokers=[], topics=[])
        for topic in asked:
            name = self.names.get(topic.topic_id)
            code = 0 if name else ErrorCode.UNKNOWN_TOPIC_ID
            answer.topics.append(
                MetadataResponse.MetadataResponseTopic(name=name, topic_id=topic.topic_id, error_code=code)
            )
        return answer


@pytest.fixture
def coordinator(fake: Any) -> Coordinator:
    return Coordinator(fake)


Open = Callable[..., GroupMember]


@pytest.fixture
def consumer(member: Open, coordinator: Coordinator) -> Open:
    """A member of the new protocol before the scripted coordinator, times in milliseconds."""
    return lambda **options: member(protocol="consumer", **options)


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[UUID, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def test_the_first_heartbeat_tells_all_and_the_next_ones_only_what_has_changed(
    consumer: Open, coordinator: Coordinator, until: Until
):
    coordinator.assign(t=[0, 2])
    one = consumer(rack="r", server_assignor="uniform", rebalance_timeout_ms=4321)
    change = one.poll(60)
    assert change is not None
    assert change.assigned == one.assignment == {TP("t", 0), TP("t", 2)}

    def acknowledging() -> list[Any]:
        return [request for request in coordinator.sends_heartbeats[1:] if request.topic_partitions is not None]

    until(lambda: acknowledging() and coordinator.sends_heartbeats[-1].topic_partitions is None, 120)
    first, second, *_ = coordinator.sends_heartbeats
    assert (first.member_epoch, first.topic_partitions, first.subscribed_topic_names) == (0, [], ["t"])
    assert (first.rack_id, first.server_assignor, first.rebalance_timeout_ms) == ("r", "uniform", 4321)
    assert first.member_id == one.member_id == second.member_id
    [acknowledged] = acknowledging()
    assert owned(acknowledged) == {T: [0, 2]}
    last = coordinator.sends_heartbeats[-1]
    assert (last.member_epoch, last.topic_partitions, last.subscribed_topic_names) == (one.generation, None, None)
    assert (last.rebalance_timeout_ms, last.server_assignor, last.rack_id) == (-1, None, None)
    until(lambda: one.state == "Stable", 120)


def test_version_0_gives_the_member_its_id(fake: Any, consumer: Open, coordinator: Coordinator, until: Until):
    fake.ranges[ConsumerGroupHeartbeatRequest.KEY] = (0, 0)
    one = consumer()
    until(lambda: len(coordinator.sends_heartbeats) > 1, 120, "", lambda: one.poll(0.05))
    assert [request.member_id for request in coordinator.sends_heartbeats[:2]] == ["", "given"]
    assert one.member_id == "given"


def test_what_goes_is_given_up_before_what_comes_is_taken(consumer: Open, coordinator: Coordinator, until: Until):
    told: list[tuple[str, list[str]]] = []

    def tell(what: str) -> Callable[[Any], None]:
        return lambda tps: told.append((what, sorted(map(str, tps))))

    coordinator.assign(t=[0, 1])
    one = consumer(on_assigned=tell("assigned"), on_revoked=tell("revoked"))
    one.poll(60)
    coordinator.assign(t=[1], u=[2])
    until(lambda: TP("u", 2) in one.assignment, 120, "", lambda: one.poll(0.05))
    assert told == [("assigned", ["t-0", "t-1"]), ("revoked", ["t-0"]), ("assigned", ["u-2"])]
    until(lambda: owned(coordinator.sends_heartbeats[-1]) is None and one.state == "Stable", 120)
    assert {T: [1], U: [2]} in [owned(request) for request in coordinator.sends_heartbeats]


def test_nothing_is_said_to_be_owned_before_the_user_has_given_it_up(
    consumer: Open, coordinator: Coordinator, until: Until
):
    """Heartbeats go on while the listener runs, and the coordinator goes on waiting."""
    during: list[Any] = []

    def busy(_: Any) -> None:
        before = len(coordinator.sends_heartbeats)
        until(lambda: len(coordinator.sends_heartbeats) > before + 3, 120, "no heartbeats")
        during.extend(owned(request) for request in coordinator.sends_heartbeats[before:])

    coordinator.assign(t=[0, 1])
    one = consumer(on_revoked=busy)
    one.poll(60)
    until(lambda: one.state == "Stable", 120)
    coordinator.assign(t=[1])
    until(lambda: len(one.assignment) == 1, 120, "", lambda: one.poll(0.05))
    assert during
    assert set(map(str, during)) == {"None"}
    until(lambda: {T: [1]} in [owned(request) for request in coordinator.sends_heartbeats], 120)


def test_what_a_listener_raises_comes_out_of_poll_and_the_member_goes_on(
    consumer: Open, coordinator: Coordinator, until: Until
):
    def fail(_: Any) -> None:
        raise ZeroDivisionError

    coordinator.assign(t=[0, 1])
    one = consumer(on_revoked=fail)
    one.poll(60)
    coordinator.assign(t=[1], u=[0])
    with pytest.raises(ZeroDivisionError):
        until(lambda: False, 120, "", lambda: one.poll(0.05))
    until(lambda: one.assignment == {TP("t", 1), TP("u", 0)}, 120, "", lambda: one.poll(0.05))
    until(lambda: {T: [1], U: [0]} in [owned(request) for request in coordinator.sends_heartbeats], 120)
    with pytest.raises(ZeroDivisionError):
        one.close()
    assert coordinator.sends_heartbeats[-1].member_epoch == -1


def test_a_topic_whose_name_comes_late_is_taken_late(consumer: Open, coordinator: Coordinator, until: Until):
    """What is known already is read meanwhile, and acknowledged in two steps."""
    name = coordinator.names.pop(U)
    coordinator.assign(t=[0], u=[0])
    one = consumer()
    one.poll(60)
    assert one.assignment == {TP("t", 0)}
    until(lambda: {T: [0]} in [owned(request) for request in coordinator.sends_heartbeats], 120)
    coordinator.names[U] = name
    until(lambda: TP("u", 0) in one.assignment, 120, "", lambda: one.poll(0.05))
    until(lambda: {T: [0], U: [0]} in [owned(request) for request in coordinator.sends_heartbeats], 120)


def test_a_topic_made_anew_is_another_one(consumer: Open, coordinator: Coordinator, until: Until):
    told: list[str] = []
    coordinator.assign(t=[0])
    one = consumer(on_assigned=lambda _: told.append("assigned"), on_revoked=lambda _: told.append("revoked"))
    one.poll(60)
    coordinator.names = {U: "t"}
    coordinator.assign(u=[0])
    until(lambda: told == ["assigned", "revoked", "assigned"], 120, told, lambda: one.poll(0.05))
    assert one.assignment == {TP("t", 0)}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_is_thrown_out_loses_all_and_joins_from_epoch_0(
    consumer: Open, coordinator: Coordinator, until: Until, code: ErrorCode
):
    lost: list[Any] = []
    coordinator.assign(t=[0])
    one = consumer(on_lost=lost.append)
    one.poll(60)
    until(lambda: one.state == "Stable", 120)
    name, before = one.member_id, len(coordinator.sends_heartbeats)
    coordinator.refuse(code)
    until(lambda: one.state == "Fenced", 120)
    sends_heartbeats = len(coordinator.sends_heartbeats)
    time.sleep(0.1)
    assert len(coordinator.sends_heartbeats) == sends_heartbeats  # silent until the user has let go
    coordinator.assign(t=[1])
    until(lambda: one.assignment == {TP("t", 1)}, 120, "", lambda: one.poll(0.05))
    assert lost == [{TP("t", 0)}]
    rejoin = next(request for request in coordinator.sends_heartbeats[before:] if request.member_epoch == 0)
    assert (rejoin.member_id, rejoin.topic_partitions, rejoin.subscribed_topic_names) == (name, [], ["t"])


def test_a_user_who_does_not_poll_is_given_up_on(consumer: Open, coordinator: Coordinator, until: Until):
    lost: list[Any] = []
    coordinator.assign(t=[0])
    one = consumer(max_poll_interval_ms=1500, on_lost=lost.append)
    one.poll(60)
    until(lambda: one.state == "Stale", 120)
    until(lambda: coordinator.sends_heartbeats[-1].member_epoch == -1, 120)
    coordinator.assign(t=[0])
    until(lambda: one.assignment and one.state == "Stable", 120, "", lambda: one.poll(0.05))
    assert lost == [{TP("t", 0)}]


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_is_for_good_unless_the_member_is_static(
    consumer: Open, coordinator: Coordinator, until: Until, instance: str | None, epoch: int
):
    one = consumer(instance_id=instance)
    until(lambda: one.generation == coordinator.epoch, 120, "", lambda: one.poll(0.1))
    one.close()
    assert coordinator.sends_heartbeats[-1].member_epoch == epoch
    assert {request.instance_id for request in coordinator.sends_heartbeats} == {instance}
    assert one.state == "Unsubscribed"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, GroupError),
        (ErrorCode.FENCED_INSTANCE_ID, GroupError),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, GroupError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupError),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, GroupError),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedVersion),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
    ],
)
def test_a_refusal_that_joining_again_would_not_mend_is_final(
    consumer: Open, coordinator: Coordinator, code: ErrorCode, kind: type[Exception]
):
    coordinator.refuse(code, message="in the broker's own words")
    one = consumer()
    for _ in range(2):
        with pytest.raises(kind, match="in the broker's own words"):
            one.poll(60)
    assert one.state == "Fatal"
    assert len(coordinator.sends_heartbeats) == 1


def test_a_coordinator_that_has_moved_is_found_and_the_member_goes_on(
    fake: Any, consumer: Open, coordinator: Coordinator, until: Until
):
    coordinator.assign(t=[0])
    one = consumer()
    one.poll(60)
    until(lambda: one.state == "Stable", 120)
    finds = len(fake.requests(FindCoordinatorRequest))
    coordinator.refuse(ErrorCode.NOT_COORDINATOR)
    until(lambda: len(fake.requests(FindCoordinatorRequest)) > finds, 120)
    before = len(coordinator.sends_heartbeats)
    until(lambda: len(coordinator.sends_heartbeats) > before + 2, 120)
    assert [request.member_epoch for request in coordinator.sends_heartbeats[before:]] == [one.generation] * len(
        coordinator.sends_heartbeats[before:]
    )
    assert one.assignment == {TP("t", 0)}


def test_after_a_lost_answer_everything_is_told_again(
    fake: Any, fakes: Any, consumer: Open, coordinator: Coordinator, until: Until
):
    coordinator.assign(t=[0])
    one = consumer()
    one.poll(60)
    until(lambda: one.state == "Stable", 120)
    before = len(coordinator.sends_heartbeats)
    fake.on(ConsumerGroupHeartbeatRequest, lambda _: fakes.CLOSE, coordinator.heartbeat)
    until(lambda: len(coordinator.sends_heartbeats) > before + 2, 120)
    again = next(
        request for request in coordinator.sends_heartbeats[before:] if request.subscribed_topic_names is not None
    )
    assert (again.member_epoch, owned(again)) == (one.generation, {T: [0]})


def refusing_commits(code: int) -> Callable[[Any], OffsetCommitResponse]:
    def answer(seen: Any) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponse.OffsetCommitResponsePartition(
                            partition_index=entry.partition_index, error_code=code
                        )
                        for entry in topic.partitions
                    ],
                )
                for topic in seen.request.topics
            ]
        )

    return answer


def test_a_commit_with_an_epoch_that_has_moved_on_is_made_again_with_the_new_one(
    fake: Any, consumer: Open, coordinator: Coordinator, until: Until
):
    coordinator.assign(t=[0], epoch=4)
    one = consumer(instance_id="i")
    one.poll(60)
    until(lambda: one.state == "Stable", 120)

    def stale(seen: Any) -> OffsetCommitResponse:
        coordinator.epoch = 6  # of which the member hears with a heartbeat, after this
        return refusing_commits(ErrorCode.STALE_MEMBER_EPOCH)(seen)

    fake.on(OffsetCommitRequest, stale, refusing_commits(0))
    one.commit({TP("t", 0): CommittedOffset(1)})
    commits = [seen.request for seen in fake.requests(OffsetCommitRequest)]
    assert commits[-1].generation_id_or_member_epoch == 6
    assert {(request.member_id, request.group_instance_id) for request in commits} == {(one.member_id, "i")}


def test_a_commit_of_a_member_that_is_out_is_refused(fake: Any, consumer: Open, coordinator: Coordinator, until: Until):
    coordinator.assign(t=[0])
    one = consumer()
    one.poll(60)
    fake.on(OffsetCommitRequest, refusing_commits(ErrorCode.STALE_MEMBER_EPOCH))
    coordinator.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    with pytest.raises(OffsetCommitFailed) as caught:
        one.commit({TP("t", 0): CommittedOffset(1)})
    assert caught.value.code == ErrorCode.STALE_MEMBER_EPOCH


def test_a_pattern_is_the_coordinators_to_match(fake: Any, consumer: Open, coordinator: Coordinator):
    coordinator.assign(u=[1])
    one = consumer(topics=(), pattern="[tu]")
    one.poll(60)
    assert one.assignment == {TP("u", 1)}
    [first, *_] = coordinator.sends_heartbeats
    assert (first.subscribed_topic_regex, first.subscribed_topic_names) == ("[tu]", [])


def test_a_pattern_needs_a_broker_that_matches(fake: Any, consumer: Open):
    fake.ranges[ConsumerGroupHeartbeatRequest.KEY] = (0, 0)
    with pytest.raises(UnsupportedVersion, match="pattern"):
        consumer(topics=(), pattern="[tu]").poll(60)


def test_a_broker_without_the_protocol_is_told_so(fake: Any, consumer: Open):
    del fake.ranges[ConsumerGroupHeartbeatRequest.KEY]
    with pytest.raises(UnsupportedVersion, match="ConsumerGroupHeartbeat"):
        consumer().poll(60)


def test_closing_never_hangs_however_silent_the_coordinator(fake: Any, fakes: Any, consumer: Open):
    one = consumer()
    one.poll(0.2)
    fake.on(ConsumerGroupHeartbeatRequest, lambda _: fakes.SILENT)
    time.sleep(0.1)
    started = time.monotonic()
    one.close(timeout=0.5)
    assert time.monotonic() - started < 15


def test_heartbeats_go_on_while_no_broker_tells_the_names_of_topics(
    fake: Any, fakes: Any, consumer: Open, coordinator: Coordinator, until: Until
):
    def metadata(seen: Any) -> Any:
        by_id = any(topic.topic_id.int for topic in seen.request.topics or [])
        return fakes.SILENT if by_id else coordinator.metadata(seen)

    fake.on(MetadataRequest, metadata)
    member = consumer()
    coordinator.assign(t=[0])
    until(lambda: coordinator._news is None, 60, "", lambda: member.poll(0.05))
    heard = len(coordinator.sends_heartbeats)
    until(lambda: len(coordinator.sends_heartbeats) >= heard + 3, 15, "", lambda: member.poll(0.05))
    assert not member.assignment
    fake.on(MetadataRequest, coordinator.metadata)
    until(lambda: member.assignment == {TP("t", 0)}, 60, "", lambda: member.poll(0.05))
