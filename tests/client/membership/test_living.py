"""A classic member lives: heartbeats, rebalances, watching the topics, users that do not poll."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from group_members import BOTH, TP, Open, Until, asked, refusing, settle
from kseg.client import AuthorizationFailed, CommittedOffset, OffsetCommitFailed
from kseg.client.membership.sticky import CooperativeStickyAssignor
from kseg.client.protocol.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_subscription,
    encode_assignment,
)
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)


@pytest.mark.rule(205, 219)
def test_a_rebalance_is_heard_by_heartbeat_and_joined_as_the_same_member(
    fake: Any, fakes: Any, member: Open, until: Until
):
    group = fakes.group(fake)
    told: list[str] = []
    one = member(on_assigned=lambda tps: told.append("assigned"), on_revoked=lambda tps: told.append("revoked"))
    one.poll(60)
    name = one.member_id
    group.rebalance()
    settle(one, 2, until)
    assert one.member_id == name
    assert told == ["assigned", "revoked", "assigned"]
    assert [request.member_id for request in asked(fake, JoinGroupRequest)] == ["", name, name]


@pytest.mark.rule(206, 221)
@pytest.mark.parametrize(
    ("code", "keeps"), [(ErrorCode.ILLEGAL_GENERATION, True), (ErrorCode.UNKNOWN_MEMBER_ID, False)]
)
def test_a_member_that_the_group_went_on_without_joins_afresh(
    fake: Any, fakes: Any, member: Open, until: Until, code: ErrorCode, keeps: bool
):
    """What it owned is lost; only one that is not known at all needs a new id."""
    group = fakes.group(fake)
    fake.on(HeartbeatRequest, group.heartbeat, refusing(HeartbeatResponse, code), group.heartbeat)
    lost: list[Any] = []
    one = member(on_lost=lost.append)
    one.poll(60)
    name = one.member_id
    settle(one, 2, until)
    assert lost == [BOTH]
    assert asked(fake, JoinGroupRequest)[2].member_id == (name if keeps else "")
    assert (one.member_id == name) is keeps


@pytest.mark.rule(227)
def test_a_member_goes_on_without_joining_when_its_coordinator_moves(fakes: Any, member: Open, until: Until):
    trio = fakes.cluster(2)
    trio.add_topic("t", [1, 1])
    trio.move_coordinator("g", 1)
    old, new = fakes.group(trio[1]), fakes.group(trio[2])
    one = member(trio.bootstrap_servers)
    one.poll(60)
    new.members, new.generation, new.state = dict(old.members), old.generation, "Stable"
    trio.move_coordinator("g", 2)
    old.die()
    until(lambda: len(trio[2].requests(HeartbeatRequest)) > 2, 120, "heartbeats", lambda: one.poll(0.05))
    one.commit({TP("t", 0): CommittedOffset(4)})
    assert new.commits
    assert one.assignment == BOTH
    assert trio.requests(JoinGroupRequest) == {1: 2}


@pytest.mark.rule(208)
def test_heartbeats_go_on_while_the_user_is_busy_and_while_the_group_rebalances(
    fake: Any, fakes: Any, member: Open, until: Until
):
    group = fakes.group(fake)
    one = member(on_revoked=lambda _: busy())

    def busy() -> None:
        before = len(fake.requests(HeartbeatRequest))
        until(lambda: len(fake.requests(HeartbeatRequest)) > before + 3, 120, "no heartbeats")

    one.poll(60)
    busy()
    group.rebalance(2)  # on_revoked runs before the member joins …
    until(lambda: one.state == "PreparingRebalance", 120, lambda: one.state, lambda: one.poll(0.1))
    group.wait_for(lambda g: len(g._joining) == 1)
    busy()  # … and here it has joined, and waits for another
    group.die()


def test_a_late_answer_about_an_older_generation_is_not_believed(fake: Any, fakes: Any, member: Open, until: Until):
    """A heartbeat was under way while the member joined the next generation: its generation was over, ours is not."""
    group = fakes.group(fake)
    held, release = threading.Event(), threading.Event()

    def late(seen: Any) -> Any:
        held.set()
        assert release.wait(120)
        return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)

    fake.on(HeartbeatRequest, late, group.heartbeat)
    one = member()
    one.poll(60)
    assert held.wait(120)
    group.rebalance()
    with pytest.raises(OffsetCommitFailed):  # which tells the member of the rebalance
        one.commit({TP("t", 0): CommittedOffset(1)})
    settle(one, 2, until)
    joins = len(fake.requests(JoinGroupRequest))
    release.set()
    sends_heartbeats = len(fake.requests(HeartbeatRequest))
    until(
        lambda: len(fake.requests(HeartbeatRequest)) > sends_heartbeats + 2,
        120,
        "no heartbeats",
        lambda: one.poll(0.05),
    )
    assert one.generation == 2
    assert len(fake.requests(JoinGroupRequest)) == joins
    assert one.assignment == BOTH


def test_a_user_who_does_not_poll_is_given_up_on(fake: Any, fakes: Any, member: Open, until: Until):
    group = fakes.group(fake)
    lost: list[Any] = []
    one = member(max_poll_interval_ms=1500, on_lost=lost.append)
    one.poll(60)
    until(lambda: fake.requests(LeaveGroupRequest), 120, "it never left")
    [leaving] = asked(fake, LeaveGroupRequest)
    assert "max.poll.interval.ms" in leaving.members[0].reason
    sends_heartbeats = len(fake.requests(HeartbeatRequest))
    time.sleep(0.1)
    assert len(fake.requests(HeartbeatRequest)) == sends_heartbeats
    assert group.state == "Empty"
    settle(one, 2, until)
    assert lost == [BOTH]
    assert one.assignment == BOTH


def test_an_error_that_ends_the_heartbeat_thread_is_raised_by_poll(fake: Any, fakes: Any, member: Open, until: Until):
    fakes.group(fake)
    one = member()
    one.poll(60)
    fake.on(HeartbeatRequest, refusing(HeartbeatResponse, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    for _ in range(2):
        with pytest.raises(AuthorizationFailed):
            until(lambda: False, 120, "", lambda: one.poll(0.1))
    assert one.assignment == frozenset()


@pytest.mark.rule(228)
def test_partitions_that_are_added_make_the_leader_rebalance(fake: Any, fakes: Any, member: Open, until: Until):
    fakes.group(fake)
    one = member(max_age=100)
    one.poll(60)
    fake.add_topic("t", [1, 1, 1])
    settle(one, 2, until)
    assert one.assignment == BOTH | {TP("t", 2)}
    assert asked(fake, JoinGroupRequest)[-1].reason == "partitions have changed: t"


def test_a_follower_leaves_the_watching_to_the_leader(fake: Any, fakes: Any, member: Open):
    group = fakes.group(fake)

    def follow(seen: Any) -> Any:
        answer = group.join(seen)
        answer.leader, answer.members = "another", []
        return answer

    mine = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[1])]
    )
    fake.on(JoinGroupRequest, follow)
    fake.on(SyncGroupRequest, lambda _: SyncGroupResponse(assignment=encode_assignment(mine)))
    one = member(max_age=50)
    one.poll(60)
    fake.add_topic("t", [1, 1, 1])
    assert one.poll(0.4) is None
    assert one.assignment == {TP("t", 1)}
    assert all(not request.assignments for request in asked(fake, SyncGroupRequest))


def test_a_topic_that_is_not_wanted_is_not_taken(fake: Any, fakes: Any, member: Open, until: Until):
    """The leader worked with an older subscription: join again."""
    group = fakes.group(fake)
    strange = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="u", partitions=[0])]
    )

    def wrong(seen: Any) -> Any:
        answer = group.sync(seen)
        answer.assignment = encode_assignment(strange)
        return answer

    fake.on(SyncGroupRequest, wrong, group.sync)
    one = member()
    settle(one, 2, until)
    assert one.assignment == BOTH


@pytest.mark.rule(229)
def test_a_cooperative_member_gives_up_only_what_goes_and_joins_again(
    fake: Any, fakes: Any, member: Open, until: Until
):
    """KIP-429: partitions that stay are never revoked, and the second phase follows by itself."""
    group = fakes.group(fake)
    told: list[tuple[str, Any]] = []
    one = member(
        assignors=[CooperativeStickyAssignor()],
        on_assigned=lambda tps: told.append(("assigned", tps)),
        on_revoked=lambda tps: told.append(("revoked", tps)),
    )
    one.poll(60)

    def less(seen: Any) -> Any:
        answer = group.sync(seen)
        mine = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0])
        answer.assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[mine]))
        return answer

    fake.on(SyncGroupRequest, less)
    group.rebalance()
    settle(one, 3, until)
    gone = frozenset({TP("t", 1)})
    assert told == [("assigned", BOTH), ("revoked", gone)]
    owned = [decode_subscription(bytes(request.protocols[0].metadata)) for request in asked(fake, JoinGroupRequest)[1:]]
    assert [[(t.topic, t.partitions) for t in told.owned_partitions] for told in owned] == [
        [],
        [("t", [0, 1])],
        [("t", [0])],
    ]
    assert [told.generation_id for told in owned] == [-1, 1, 2]
