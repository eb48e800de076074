"""The tables of states, and both sessions walked through anything that a coordinator and a user may do."""

from __future__ import annotations

from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kseg.client.errors import GroupError
from kseg.client.membership.classic_session import ClassicSession, Generation, Joiner
from kseg.client.membership.consumer_session import ConsumerSession
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.states import (
    CLASSIC,
    CONSUMER,
    ClassicEvent,
    ClassicState,
    ConsumerEvent,
    ConsumerState,
    IllegalMemberStep,
    Machine,
)
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from kseg.client.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

STEPS: list[tuple[Any, Any, Enum, Enum]] = [
    (table, start, state, event)
    for table, states, events, start in (
        (CLASSIC, ClassicState, ClassicEvent, ClassicState.UNJOINED),
        (CONSUMER, ConsumerState, ConsumerEvent, ConsumerState.UNSUBSCRIBED),
    )
    for state in states
    for event in events
]


@pytest.mark.rule(226)
def test_a_step_that_is_not_in_the_table_raises_and_changes_nothing():
    refused = 0
    for table, start, state, event in STEPS:
        machine = Machine(table, start)
        machine.state = state
        if (state, event) in table:
            assert machine.allows(event)
            assert machine.step(event) is table[state, event] is machine.state
        else:
            refused += 1
            assert not machine.allows(event)
            with pytest.raises(IllegalMemberStep, match=f"{event.name} .* {state.value}"):
                machine.step(event)
            assert machine.state is state
    assert refused > len(STEPS) / 2


@pytest.mark.rule(226)
def test_every_state_can_be_reached_and_the_classic_ones_are_the_guides():
    assert {state.value for state in ClassicState} == {
        "Unjoined",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
    }
    for table, start, states in (
        (CLASSIC, ClassicState.UNJOINED, ClassicState),
        (CONSUMER, ConsumerState.UNSUBSCRIBED, ConsumerState),
    ):
        reached: set[Any] = {start}
        while more := {after for (before, _), after in table.items() if before in reached} - reached:
            reached |= more
        assert reached == set(states)


class Bytes:
    """A group of some type that brokers know nothing of, as Connect's and Streams' are to them."""

    protocol_type = "something"

    def __init__(self) -> None:
        self.got: bytes | None = None

    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v2", b"two"), ("v1", b"one")]

    def assign(self, protocol: str, joiners: Any, *, skip: bool) -> dict[str, bytes]:
        return {} if skip else {joiner.member_id: joiner.metadata + protocol.encode() for joiner in joiners}

    def assigned(self, generation: Generation, data: bytes, *, leader: bool) -> None:
        self.got = data


REFUSALS = st.sampled_from(
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
)


class ClassicWalk(RuleBasedStateMachine):
    """A coordinator that answers whatever it likes."""

    #: How often a member got an assignment, in all walks.
    synced = 0

    def __init__(self) -> None:
        super().__init__()
        self.protocol = Bytes()
        self.session = ClassicSession("g", MemberSettings(), self.protocol)
        self.generations = 0
        self.open: str | None = None

    @precondition(lambda self: self.open is None)
    @rule(version=st.integers(0, 9))
    def join(self, version: int) -> None:
        request = self.session.join_request(version, "why")
        assert request.member_id == self.session.generation.member_id
        assert [protocol.name for protocol in request.protocols] == ["v2", "v1"]
        self.open = "join"

    @precondition(lambda self: self.open == "join")
    @rule()
    def give_id(self) -> None:
        error = self.session.joined(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
        assert error is not None
        assert self.session.generation == Generation(member_id="given")
        self.open = None

    @precondition(lambda self: self.open == "join")
    @rule(leads=st.booleans(), skip=st.booleans())
    def admit(self, leads: bool, skip: bool) -> None:
        self.generations += 1
        member = self.session.generation.member_id or f"m{self.generations}"
        members = [JoinGroupResponse.JoinGroupResponseMember(member_id=member, metadata=b"two")]
        response = JoinGroupResponse(
            generation_id=self.generations,
            protocol_name="v2",
            protocol_type="something",
            leader=member if leads else "other",
            member_id=member,
            members=members if leads else [],
            skip_assignment=skip,
        )
        assert self.session.joined(response) is None
        request = self.session.sync_request(5)
        assert bool(request.assignments) == (leads and not skip)
        self.open = "sync"

    @precondition(lambda self: self.open == "sync")
    @rule(data=st.binary(max_size=5))
    def sync(self, data: bytes) -> None:
        response = SyncGroupResponse(assignment=data, protocol_type="something", protocol_name="v2")
        assert self.session.synced(response) is None
        assert self.protocol.got == data
        self.open = None
        ClassicWalk.synced += 1

    @precondition(lambda self: self.open is None)
    @rule(version=st.integers(0, 9), leads=st.booleans(), skip=st.booleans(), data=st.binary(max_size=5))
    def join_to_the_end(self, version: int, leads: bool, skip: bool, data: bytes) -> None:
        """All at once: apart, they seldom follow each other before something goes wrong."""
        self.join(version)
        self.admit(leads, skip)
        self.sync(data)

    @precondition(lambda self: self.open is not None)
    @rule(code=REFUSALS)
    def refuse(self, code: ErrorCode) -> None:
        before = self.session.generation
        if self.open == "join":
            error = self.session.joined(JoinGroupResponse(error_code=code))
        else:
            error = self.session.synced(SyncGroupResponse(error_code=code))
        assert isinstance(error, Exception)
        self.check_after(code, before)
        self.open = None

    @precondition(lambda self: self.open is None and self.session.state is ClassicState.STABLE)
    @rule(code=REFUSALS)
    def heartbeat_refused(self, code: ErrorCode) -> None:
        before = self.session.generation
        self.session.heard(self.session._error("Heartbeat", code))
        self.check_after(code, before)

    @rule()
    def connection_lost(self) -> None:
        self.open = None

    @precondition(lambda self: self.open is None)
    @rule()
    def leave(self) -> None:
        self.session.left()
        assert self.session.generation == Generation()

    def check_after(self, code: ErrorCode, before: Generation) -> None:
        now = self.session.generation
        if code == ErrorCode.ILLEGAL_GENERATION:
            assert now == Generation(member_id=before.member_id)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            assert now == Generation()
        else:
            assert now == before

    @invariant()
    def a_member_is_in_a_generation_when_it_says_so(self) -> None:
        if self.session.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            assert self.session.generation.number == self.generations
            assert self.session.generation.member_id
        if self.session.state is ClassicState.UNJOINED:
            assert self.session.generation.number == -1
            assert not self.session.leader


TOPICS = [UUID(int=1), UUID(int=2), UUID(int=3)]
PLACE = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
PLACES = st.frozensets(PLACE, max_size=6)


class ConsumerWalk(RuleBasedStateMachine):
    """A coordinator that hands out whatever it likes, answers or does not, and a user that comes and goes."""

    #: How often a member came to own something, in all walks.
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.session = ConsumerSession("g", MemberSettings(), ("t",), server_assignor="uniform", rack="r")
        self.session.subscribe()
        self.session.learn_names({TOPICS[0]: "topic-1", TOPICS[1]: "topic-2"})
        self.epoch = 0
        self.told: frozenset[Any] | None = None  # what the coordinator knows the member to own
        self.known = False

    def heartbeat(self) -> frozenset[Any] | None:
        request = self.session.request(1)
        assert request.member_id
        joining = self.session.state is ConsumerState.JOINING
        assert request.member_epoch == (0 if joining else self.session.epoch)
        if joining:
            assert request.topic_partitions == []
            assert not self.session.owned
        if joining or not self.known:
            assert request.subscribed_topic_names == ["t"]
            assert request.rebalance_timeout_ms == 300_000
            assert (request.rack_id, request.server_assignor) == ("r", "uniform")
            assert request.topic_partitions is not None
        else:
            assert request.subscribed_topic_names is None
            assert request.rebalance_timeout_ms == -1
        if request.topic_partitions is None:
            return None
        return frozenset((topic.topic_id, n) for topic in request.topic_partitions for n in topic.partitions)

    @precondition(lambda self: self.session.sends_heartbeats)
    @rule(places=st.none() | PLACES)
    def answered(self, places: frozenset[Any] | None) -> None:
        acknowledges = self.session.state is ConsumerState.ACKNOWLEDGING
        owned = self.heartbeat()
        if owned is not None:
            self.told = owned
        self.epoch += 1
        response = ConsumerGroupHeartbeatResponse(member_epoch=self.epoch, heartbeat_interval_ms=500)
        if places is not None:
            by_topic: dict[UUID, list[int]] = {}
            for topic_id, number in places:
                by_topic.setdefault(topic_id, []).append(number)
            response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in by_topic.items()
                ]
            )
        assert self.session.answered(response) is None
        self.known = True
        assert self.session.epoch == self.epoch
        if acknowledges and places is None:
            assert self.told == self.session.owned
            assert self.session.state in (ConsumerState.STABLE, ConsumerState.RECONCILING)

    @precondition(lambda self: self.session.sends_heartbeats)
    @rule()
    def lost_answer(self) -> None:
        self.heartbeat()
        self.session.unanswered()
        self.known = False

    @precondition(lambda self: self.session.sends_heartbeats)
    @rule(what=st.sampled_from(["fenced", "unknown", "stuck", "left"]))
    def misfortune(self, what: str) -> None:
        if what == "stuck":
            self.session.expired()
            assert not self.session.sends_heartbeats
        elif what == "left":
            self.session.left()
            assert self.session.state is ConsumerState.UNSUBSCRIBED
            self.session.subscribe()
        else:
            self.thrown_out({"fenced": ErrorCode.FENCED_MEMBER_EPOCH, "unknown": ErrorCode.UNKNOWN_MEMBER_ID}[what])
        self.known = False

    def thrown_out(self, code: ErrorCode) -> None:
        self.heartbeat()
        assert isinstance(self.session.answered(ConsumerGroupHeartbeatResponse(error_code=code)), GroupError)
        assert self.session.state is ConsumerState.FENCED
        assert not self.session.sends_heartbeats
        self.known = False

    @precondition(lambda self: self.session.sends_heartbeats)
    @rule(code=st.sampled_from([ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]))
    def coordinator_moves(self, code: ErrorCode) -> None:
        before = (self.session.state, self.session.epoch, self.session.owned)
        self.heartbeat()
        error = self.session.answered(ConsumerGroupHeartbeatResponse(error_code=code))
        assert error is not None
        assert error.retriable
        assert (self.session.state, self.session.epoch, self.session.owned) == before
        self.known = False

    @rule()
    def name_found(self) -> None:
        self.session.learn_names({TOPICS[2]: "topic-3"})

    @rule(interrupted=st.sampled_from([False, False, False, True]))
    def user_polls(self, interrupted: bool) -> None:
        if self.session.state in (ConsumerState.FENCED, ConsumerState.STALE):
            self.session.released()
            assert self.session.state is ConsumerState.JOINING
            assert not self.session.owned
            return
        step = self.session.next_reconciliation()
        if step is None:
            return
        assert step.revoke or step.gain
        assert not step.revoke & step.gain or len({place[0] for place in self.session.owned | step.partitions}) > 1
        if interrupted:  # thrown out while the listeners ran
            self.thrown_out(ErrorCode.FENCED_MEMBER_EPOCH)
        self.session.reconciled(step.partitions)
        if not interrupted:
            assert self.session.owned == step.partitions <= self.session.target
            ConsumerWalk.taken += bool(self.session.owned)

    @precondition(lambda self: self.session.sends_heartbeats)
    @rule(places=st.frozensets(PLACE, min_size=1, max_size=6))
    def takes_what_it_is_given(self, places: frozenset[Any]) -> None:
        """Both at once: apart, they seldom follow each other before something goes wrong."""
        self.answered(places)
        self.user_polls(interrupted=False)

    @invariant()
    def a_stable_member_owns_its_target(self) -> None:
        if self.session.state is ConsumerState.STABLE:
            assert self.session.owned == self.session.target
            assert self.told is None or self.told == self.session.owned

    @invariant()
    def what_is_owned_has_a_name(self) -> None:
        assert all(topic_id in self.session.names for topic_id, _ in self.session.owned)


def test_a_classic_member_is_where_it_says_on_any_walk():
    ClassicWalk.synced = 0
    run_state_machine_as_test(ClassicWalk)
    assert ClassicWalk.synced > 50, "walks on which nobody joins show nothing"


def test_a_member_of_the_new_protocol_owns_what_it_should_on_any_walk():
    ConsumerWalk.taken = 0
    run_state_machine_as_test(ConsumerWalk)
    assert ConsumerWalk.taken > 50, "walks on which nothing is owned show nothing"


@pytest.mark.rule(211, 218)
def test_the_leader_alone_is_told_of_the_members():
    """What a leader gets, it hands to the protocol; a follower brings nothing to SyncGroup."""
    session = ClassicSession("g", MemberSettings(), Bytes())
    session.join_request(9, "")
    members = [JoinGroupResponse.JoinGroupResponseMember(member_id=name, metadata=b"x") for name in ("a", "b")]
    session.joined(JoinGroupResponse(generation_id=1, protocol_name="v2", leader="a", member_id="a", members=members))
    assert session._joiners == (Joiner("a", None, b"x"), Joiner("b", None, b"x"))
    handed_out = {entry.member_id: bytes(entry.assignment) for entry in session.sync_request(5).assignments}
    assert handed_out == {"a": b"xv2", "b": b"xv2"}


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_an_interval_of_nothing_is_a_brokers_default(interval_ms: int):
    session = ConsumerSession("g", MemberSettings(), ("t",), server_assignor=None, rack=None)
    session.answered(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=interval_ms))
    assert session.interval == 5.0
