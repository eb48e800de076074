"""The classic group protocol as one member sees it, without sockets: requests out, answers in.

    JoinGroup   "" ─► MEMBER_ID_REQUIRED and an id ─► that id ─► the generation, and to the leader all members
    SyncGroup   the leader brings everybody's assignment, each member gets its own
    Heartbeat   keeps the member alive; its response says whether the group rebalances
    LeaveGroup  gives its place up at once, instead of after the session timeout

What a group is about (which topics to read, which connectors to run) is `GroupProtocol`'s: the session, like the
coordinator, moves its bytes without looking inside.

Sources: KIP-62 (rebalance timeout), KIP-345 (static members), KIP-394 (member id), KIP-559 (protocol type and name in
the answers), KIP-800 (reasons), KIP-814 (a static leader that comes back has nothing to assign).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kseg.client.errors import KafkaError, ProtocolFault, UnsupportedVersion, error_from_code
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.states import CLASSIC, ClassicEvent, ClassicState, Machine
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

NO_GENERATION: Final = -1
_JOIN_FIRST_WITH_INSTANCES: Final = 5
_SYNC_FIRST_WITH_INSTANCES: Final = 3
_HEARTBEAT_FIRST_WITH_INSTANCES: Final = 3
_LEAVE_FIRST_WITH_MEMBERS: Final = 3
_LONGEST_REASON: Final = 255  # what brokers keep of it


@dataclass(frozen=True, slots=True)
class Generation:
    """Who we are in which generation: what every request of a member carries."""

    number: int = NO_GENERATION
    member_id: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Joiner:
    """One member, as the leader gets it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class GroupProtocol(Protocol):
    """What the group is about. Its bytes are opaque to coordinators and to the session."""

    protocol_type: str

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """The protocols this member can work with, the preferred one first, with its metadata for the leader in
        each."""
        ...

    def assign(self, protocol: str, joiners: Sequence[Joiner], *, skip: bool) -> Mapping[str, bytes]:
        """The leader's work: each member's assignment. `skip`: the members have theirs, give nothing."""
        ...

    def assigned(self, generation: Generation, data: bytes, *, leader: bool) -> None:
        """This member's assignment in a generation."""
        ...


@dataclass(slots=True)
class ClassicSession:
    """One member of one classic group."""

    group: str
    settings: MemberSettings
    protocol: GroupProtocol
    generation: Generation = field(default_factory=Generation)
    leader: bool = False
    machine: Machine[ClassicState, ClassicEvent] = field(
        default_factory=lambda: Machine(CLASSIC, ClassicState.UNJOINED)
    )
    _joiners: tuple[Joiner, ...] = ()
    _skip: bool = False
    _assignments: Mapping[str, bytes] | None = None

    @property
    def state(self) -> ClassicState:
        return self.machine.state

    def join_request(self, version: int, reason: str) -> JoinGroupRequest:
        """Enter the group, or its next generation."""
        if self.settings.instance_id is not None and version < _JOIN_FIRST_WITH_INSTANCES:
            raise UnsupportedVersion("the broker is too old for group.instance.id (it needs 2.3)", group=self.group)
        in_generation = self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)
        self.machine.step(
            ClassicEvent.REBALANCE
            if in_generation or self.state is ClassicState.PREPARING_REBALANCE
            else ClassicEvent.JOIN
        )
        self.leader = False
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.rebalance_timeout,  # version 0 has the session timeout alone
            member_id=self.generation.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=self.protocol.protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=data)
                for name, data in self.protocol.metadata()
            ],
            reason=reason[:_LONGEST_REASON],
        )

    def joined(self, response: JoinGroupResponse) -> KafkaError | None:
        """Take JoinGroup's answer. None: the generation is there, `sync_request` comes next."""
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.machine.step(ClassicEvent.ID_GIVEN)
            self.generation = Generation(member_id=response.member_id)
            return self._error("JoinGroup", response.error_code)
        if response.error_code:
            return self.heard(self._error("JoinGroup", response.error_code))
        self._check_type(response.protocol_type, "JoinGroup")
        self.machine.step(ClassicEvent.JOINED)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name or "")
        self.leader = response.leader == response.member_id
        self._skip = response.skip_assignment
        self._assignments = None
        self._joiners = tuple(
            Joiner(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in response.members
        )
        return None

    def sync_request(self, version: int) -> SyncGroupRequest:
        """Ask for our part; from the leader also: hand out everybody's."""
        if self.leader and self._assignments is None:
            self._assignments = self.protocol.assign(self.generation.protocol, self._joiners, skip=self._skip)
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation.number,
            member_id=self.generation.member_id,
            group_instance_id=self.settings.instance_id if version >= _SYNC_FIRST_WITH_INSTANCES else None,
            protocol_type=self.protocol.protocol_type,
            protocol_name=self.generation.protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in (self._assignments or {}).items()
            ],
        )

    def synced(self, response: SyncGroupResponse) -> KafkaError | None:
        """Take SyncGroup's answer. None: the member is stable."""
        if response.error_code:
            return self.heard(self._error("SyncGroup", response.error_code))
        self._check_type(response.protocol_type, "SyncGroup")
        if response.protocol_name not in (None, self.generation.protocol):
            raise ProtocolFault("SyncGroup response is for another protocol", group=self.group)
        self.machine.step(ClassicEvent.SYNCED)
        self.protocol.assigned(self.generation, bytes(response.assignment), leader=self.leader)
        return None

    def heard(self, error: KafkaError) -> KafkaError:
        """Take what an answer to any of a member's requests says about the member; gives the error itself.

        A member that the coordinator does not know has lost all; one whose generation is over keeps its id.
        """
        if error.reaction in (Reaction.JOIN_AFRESH, Reaction.FAIL):
            self.machine.step(ClassicEvent.LOST)
            keep = self.generation.member_id if error.code == ErrorCode.ILLEGAL_GENERATION else ""
            self.generation, self.leader = Generation(member_id=keep), False
        return error

    def left(self) -> None:
        """The member has left, or is about to be taken for gone."""
        self.machine.step(ClassicEvent.LEFT)
        self.generation, self.leader = Generation(), False

    def _error(self, what: str, code: int) -> KafkaError:
        return error_from_code(code, what, group=self.group)

    def _check_type(self, protocol_type: str | None, what: str) -> None:
        if protocol_type not in (None, self.protocol.protocol_type):
            raise ProtocolFault(f"{what} response is for groups of type {protocol_type!r}", group=self.group)


def heartbeat_request(group: str, who: Generation, instance_id: str | None, version: int) -> HeartbeatRequest:
    """That the member lives."""
    return HeartbeatRequest(
        group_id=group,
        generation_id=who.number,
        member_id=who.member_id,
        group_instance_id=instance_id if version >= _HEARTBEAT_FIRST_WITH_INSTANCES else None,
    )


def leave_request(group: str, who: Generation, instance_id: str | None, version: int, reason: str) -> LeaveGroupRequest:
    """That the member gives its place up."""
    if version < _LEAVE_FIRST_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=group, member_id=who.member_id)
    identity = LeaveGroupRequest.MemberIdentity(
        member_id=who.member_id, group_instance_id=instance_id, reason=reason[:_LONGEST_REASON]
    )
    return LeaveGroupRequest(group_id=group, members=[identity])
