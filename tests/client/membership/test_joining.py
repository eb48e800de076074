"""A classic member joins: what it says, what it is told, what a coordinator may refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from group_members import BOTH, TP, Open, Until, asked, refusing
from kseg.client import ClientConfig, ConfigError, GroupError, TopicPartition
from kseg.client.membership.assignor import Assignment, Assignor, Subscription
from kseg.client.membership.member import GroupMember
from kseg.client.membership.simple_assignors import RangeAssignor, RoundRobinAssignor
from kseg.client.membership.sticky import CooperativeStickyAssignor
from kseg.client.protocol.embedded.consumer_protocol import decode_subscription, encode_subscription
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest


@pytest.mark.rule(204)
def test_a_new_member_joins_twice_with_the_id_that_it_is_given(fake: Any, fakes: Any, member: Open):
    fakes.group(fake)
    one = member()
    change = one.poll(60)
    assert change is not None
    assert (change.assigned, one.assignment, one.state) == (BOTH, BOTH, "Stable")
    first, second = asked(fake, JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", one.member_id)


@pytest.mark.rule(204)
def test_before_version_4_one_join_is_enough(fake: Any, fakes: Any, member: Open):
    fake.ranges[JoinGroupRequest.KEY] = (0, 3)
    fakes.group(fake)
    one = member()
    one.poll(60)
    assert [request.member_id for request in asked(fake, JoinGroupRequest)] == [""]
    assert one.member_id


@pytest.mark.rule(207, 210)
def test_a_join_tells_timeouts_protocols_in_order_and_a_reason(fake: Any, fakes: Any, member: Open):
    fakes.group(fake)
    member(rebalance_timeout_ms=4321, assignors=[RoundRobinAssignor(), RangeAssignor()]).poll(60)
    request = asked(fake, JoinGroupRequest)[-1]
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (20_000, 4321)
    assert (request.protocol_type, request.reason) == ("consumer", "the member is new")
    assert [protocol.name for protocol in request.protocols] == ["roundrobin", "range"]
    assert all(decode_subscription(protocol.metadata).topics == ["t"] for protocol in request.protocols)


@pytest.mark.rule(207)
def test_the_oldest_version_has_the_session_timeout_alone(fake: Any, fakes: Any, member: Open):
    for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest):
        fake.ranges[kind.KEY] = (0, 0)
    fakes.group(fake)
    one = member()
    one.poll(60)
    one.close()
    assert asked(fake, JoinGroupRequest)[0].session_timeout_ms == 20_000
    assert [request.member_id for request in asked(fake, LeaveGroupRequest)] == ["c-1"]


@pytest.mark.rule(210, 230)
def test_the_groups_protocol_decides_which_assignor_assigns(fake: Any, fakes: Any, member: Open):
    """A rolling change of strategy: the second one, which all members have, is what the group takes."""
    group = fakes.group(fake)

    def admit(seen: Any) -> Any:
        answer = group.join(seen)
        answer.protocol_name = "mine" if not answer.error_code else None
        return answer

    class Mine(Assignor):
        name = "mine"
        got: tuple[Assignment, int] | None = None

        def subscription_data(self, topics: Any) -> bytes:
            return b"from " + "".join(topics).encode()

        def assign(
            self, partitions: Mapping[str, int], members: Mapping[str, Subscription], racks: Any = None
        ) -> dict[str, list[TopicPartition]]:
            assert partitions == {"t": 2}
            return {name: [TP("t", 1)] for name in members}

        def assignment_data(self, member_id: str) -> bytes:
            return b"to " + member_id.encode()

        def assigned(self, assignment: Assignment, generation: int) -> None:
            self.got = (assignment, generation)

    fake.on(JoinGroupRequest, admit)
    mine = Mine()
    one = member(assignors=[RangeAssignor(), mine])
    one.poll(60)
    assert one.assignment == {TP("t", 1)}
    assert mine.got == (Assignment((TP("t", 1),), b"to " + one.member_id.encode()), 1)
    request = asked(fake, JoinGroupRequest)[-1]
    assert decode_subscription(request.protocols[1].metadata).user_data == b"from t"


def test_a_cooperative_assignor_that_gives_away_too_early_is_found_out(fake: Any, fakes: Any, member: Open):
    class Hasty(CooperativeStickyAssignor):
        def assign(self, partitions: Any, members: Any, racks: Any = None) -> Any:
            return {name: [TP("t", 0)] if at else [] for at, name in enumerate(members)}

    group = fakes.group(fake)
    one = member(assignors=[Hasty()])

    def lead(seen: Any) -> Any:
        answer = group.join(seen)
        if not answer.error_code:
            told = JoinGroupResponse.JoinGroupResponseMember(member_id="0", metadata=answer.members[0].metadata)
            owner = decode_subscription(bytes(told.metadata))
            owner.owned_partitions = [owner.TopicPartition(topic="t", partitions=[0])]
            told.metadata = encode_subscription(owner)
            answer.members = [told, *answer.members]
        return answer

    fake.on(JoinGroupRequest, lead)
    with pytest.raises(GroupError, match="t-0"):
        one.poll(60)


def test_a_join_takes_as_many_polls_as_it_takes(fake: Any, fakes: Any, member: Open, until: Until):
    """And it is one request all the while, since each new one would begin the rebalance anew."""
    group = fakes.group(fake, size=2)
    one = member()
    until(lambda: len(asked(fake, JoinGroupRequest)) == 2, step=lambda: one.poll(0.1))
    for _ in range(4):
        assert one.poll(0.1) is None
    assert one.state == "PreparingRebalance"
    assert len(asked(fake, JoinGroupRequest)) == 2
    with group._changed:
        group.size = 1
        group._complete()
    assert one.poll(60) is not None
    assert len(asked(fake, JoinGroupRequest)) == 2


@pytest.mark.rule(209, 222)
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
)
def test_a_refusal_that_joining_again_would_not_mend_is_final(fake: Any, member: Open, code: ErrorCode):
    fake.on(JoinGroupRequest, refusing(JoinGroupResponse, code))
    one = member()
    for _ in range(2):
        with pytest.raises(GroupError, match="group=g") as caught:
            one.poll(60)
    assert (caught.value.code, caught.value.retriable) == (code, False)
    assert len(asked(fake, JoinGroupRequest)) == 1


def test_a_coordinator_that_loads_or_has_moved_is_asked_again(fake: Any, fakes: Any, member: Open):
    group = fakes.group(fake)
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    fake.on(JoinGroupRequest, *(refusing(JoinGroupResponse, code) for code in codes), group.join)
    assert member().poll(60) is not None
    assert len(asked(fake, FindCoordinatorRequest)) >= 3


def test_a_connection_lost_while_syncing_means_joining_again_as_the_same_member(fake: Any, fakes: Any, member: Open):
    group = fakes.group(fake)
    fake.on(SyncGroupRequest, lambda _: fakes.CLOSE, group.sync)
    one = member()
    assert one.poll(60) is not None
    assert [request.member_id for request in asked(fake, JoinGroupRequest)] == ["", one.member_id, one.member_id]


def test_settings_that_cannot_work_are_refused_all_at_once(member: Open):
    with pytest.raises(ConfigError) as caught:
        member(session_timeout_ms=10, heartbeat_interval_ms=10, max_poll_interval_ms=0, instance_id="")
    assert [fault.key for fault in caught.value.faults] == [
        "max.poll.interval.ms",
        "rebalance.timeout.ms",
        "heartbeat.interval.ms",
        "group.instance.id",
    ]


def test_times_that_the_new_protocol_ignores_are_not_checked_with_it(member: Open):
    member(protocol="consumer", session_timeout_ms=10, heartbeat_interval_ms=20)
    with pytest.raises(ConfigError) as caught:
        member(protocol="consumer", heartbeat_interval_ms=0, max_poll_interval_ms=0)
    assert [fault.key for fault in caught.value.faults] == ["max.poll.interval.ms", "rebalance.timeout.ms"]


def test_a_group_without_a_name_is_refused(fake: Any):
    config = ClientConfig.from_properties({"bootstrap.servers": fake.bootstrap_servers}, client_id="c")
    with pytest.raises(ConfigError, match=r"group\.id: is empty"):
        GroupMember(config, "", topics=["t"])


@pytest.mark.parametrize(
    "options",
    [
        {"topics": []},
        {"topics": ["t"], "pattern": "x"},
        {"topics": "t"},
        {"assignors": []},
        {"assignors": [RangeAssignor(), RangeAssignor()]},
        {"server_assignor": "uniform"},
        {"protocol": "consumer", "assignors": [RangeAssignor()]},
        {"protocol": "share"},
    ],
)
def test_options_that_contradict_each_other_are_refused(member: Open, options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"give|protocol|assignor"):
        member(**options)
