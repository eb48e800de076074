"""A classic member that is static, that commits, that leaves."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from group_members import BOTH, TP, Open, Until, asked, refusing, settle
from kseg.client import CommittedOffset, GroupError, OffsetCommitFailed, UnsupportedVersion
from kseg.client.protocol.embedded.consumer_protocol import ConsumerProtocolAssignment, encode_assignment
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kseg.client.protocol.messages.offsets import OffsetCommitRequest


@pytest.mark.rule(193, 223)
def test_a_static_member_names_its_instance_everywhere_and_does_not_leave(fake: Any, fakes: Any, member: Open):
    fakes.group(fake)
    one = member(instance_id="i")
    one.poll(60)
    one.commit({TP("t", 0): CommittedOffset(1)})
    until = time.monotonic() + 120
    while not fake.requests(HeartbeatRequest):
        assert time.monotonic() < until
    one.close()
    for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest):
        assert {request.group_instance_id for request in asked(fake, kind)} == {"i"}, kind
    assert len(asked(fake, JoinGroupRequest)) == 1
    assert not asked(fake, LeaveGroupRequest)


def test_a_static_member_that_was_replaced_does_not_fence_its_successor(
    fake: Any, fakes: Any, member: Open, until: Until
):
    fakes.group(fake)
    one = member(instance_id="i")
    one.poll(60)
    fake.on(HeartbeatRequest, refusing(HeartbeatResponse, ErrorCode.FENCED_INSTANCE_ID))
    for _ in range(2):
        with pytest.raises(GroupError, match="FENCED_INSTANCE_ID"):
            until(lambda: False, 120, "", lambda: one.poll(0.1))
    assert len(asked(fake, JoinGroupRequest)) == 1


def test_a_static_leader_that_comes_back_assigns_nothing(fake: Any, fakes: Any, member: Open):
    """KIP-814: the members have their assignments; the leader needs the subscriptions to watch the topics."""
    group = fakes.group(fake)

    def back(seen: Any) -> Any:
        answer = group.join(seen)
        answer.skip_assignment = True
        return answer

    mine = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0])
    data = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[mine]))
    fake.on(JoinGroupRequest, back)
    fake.on(SyncGroupRequest, lambda _: SyncGroupResponse(assignment=data))
    one = member(instance_id="i")
    one.poll(60)
    assert one.assignment == {TP("t", 0)}
    assert [request.assignments for request in asked(fake, SyncGroupRequest)] == [[]]


def test_static_membership_needs_a_broker_that_knows_it(fake: Any, fakes: Any, member: Open):
    fake.ranges[JoinGroupRequest.KEY] = (0, 4)
    fakes.group(fake)
    with pytest.raises(UnsupportedVersion, match=r"group\.instance\.id"):
        member(instance_id="i").poll(60)


def test_a_commit_during_a_rebalance_is_refused_and_the_member_joins_again(
    fake: Any, fakes: Any, member: Open, until: Until
):
    group = fakes.group(fake)
    one = member(heartbeat_interval_ms=19_000)  # the commit is the first to hear of it
    one.poll(60)
    group.rebalance()
    with pytest.raises(OffsetCommitFailed) as caught:
        one.commit({TP("t", 0): CommittedOffset(1)})
    assert caught.value.partitions == {TP("t", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    settle(one, 2, until)
    one.commit({TP("t", 0): CommittedOffset(1)})
    [first, second] = asked(fake, OffsetCommitRequest)
    assert [first.generation_id_or_member_epoch, second.generation_id_or_member_epoch] == [1, 2]
    assert second.member_id == one.member_id


def test_partitions_that_are_not_owned_are_not_committed(fake: Any, fakes: Any, member: Open):
    fakes.group(fake)
    one = member()
    with pytest.raises(GroupError, match="does not own t-0"):
        one.commit({TP("t", 0): CommittedOffset(1)})
    assert not fake.requests(OffsetCommitRequest)


def test_the_last_commit_goes_out_while_partitions_are_given_up(fake: Any, fakes: Any, member: Open):
    group = fakes.group(fake)
    one = member(on_revoked=lambda tps: one.commit(dict.fromkeys(tps, CommittedOffset(8))))
    one.poll(60)
    one.close()
    assert set(group.commits.values()) == {8}
    kinds = [type(seen.request) for seen in fake.seen]
    assert kinds.index(OffsetCommitRequest) < kinds.index(LeaveGroupRequest)


def test_what_a_listener_raises_comes_out_of_poll_and_the_member_goes_on(
    fake: Any, fakes: Any, member: Open, until: Until
):
    """The partitions are given up all the same: the others of the group do not wait for a listener to be mended."""

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    group = fakes.group(fake)
    one = member(on_revoked=fail)
    one.poll(60)
    group.rebalance()
    with pytest.raises(ZeroDivisionError):
        until(lambda: False, 120, "", lambda: one.poll(0.1))
    assert one.assignment == frozenset()
    settle(one, 2, until)
    assert one.assignment == BOTH
    with pytest.raises(ZeroDivisionError):
        one.close()
    assert group.state == "Empty"  # it has left, too


@pytest.mark.rule(220)
def test_a_member_leaves_with_a_reason_when_it_is_closed(fake: Any, fakes: Any, member: Open):
    group = fakes.group(fake)
    one = member()
    one.poll(60)
    name = one.member_id
    one.close()
    one.close()
    [leaving] = asked(fake, LeaveGroupRequest)
    assert [(entry.member_id, entry.reason) for entry in leaving.members] == [(name, "the member closes")]
    assert group.state == "Empty"
    with pytest.raises(RuntimeError, match="closed"):
        one.poll()


@pytest.mark.parametrize("kind", [HeartbeatRequest, LeaveGroupRequest, JoinGroupRequest])
def test_closing_never_hangs_however_silent_the_coordinator(fake: Any, fakes: Any, member: Open, kind: type):
    fakes.group(fake)
    one = member()
    if kind is not JoinGroupRequest:
        one.poll(60)
    fake.on(kind, lambda _: fakes.SILENT)
    one.poll(0.2)
    started = time.monotonic()
    one.close(timeout=0.5)
    assert time.monotonic() - started < 15


def test_no_thread_outlives_its_member(fake: Any, fakes: Any, member: Open, until: Until):
    fakes.group(fake)
    one = member()
    one.poll(60)
    one.close()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "heartbeat-g"], 120)


def test_leaving_a_group_that_has_forgotten_the_member_is_no_fault(fake: Any, fakes: Any, member: Open):
    fakes.group(fake)
    one = member()
    one.poll(60)
    fake.on(LeaveGroupRequest, refusing(LeaveGroupResponse, ErrorCode.UNKNOWN_MEMBER_ID))
    one.close()
    assert len(asked(fake, LeaveGroupRequest)) == 1
