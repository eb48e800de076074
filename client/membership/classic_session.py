"""A member's side of the classic group protocol, without I/O: builds requests, processes responses.

    JoinGroup   member id "" ─► MEMBER_ID_REQUIRED with an id ─► that id ─► the generation; for the leader all members
    SyncGroup   the leader sends all assignments, each member receives its own
    Heartbeat   keeps the member alive; its response says whether the group rebalances
    LeaveGroup  removes the member at once, instead of after the session timeout

What the members share out (topics to read, connectors to run) is defined by a `GroupProtocol`: for the session, as for
the coordinator, its bytes are opaque.

Sources: KIP-62 (rebalance timeout), KIP-345 (static members), KIP-394 (member id), KIP-559 (protocol type and name in
the responses), KIP-800 (reasons), KIP-814 (a static leader that rejoins skips the assignment).
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
_LONGEST_REASON: Final = 255  # characters, as in Java's client


@dataclass(frozen=True, slots=True)
class Generation:
    """Generation, member id and protocol, which a member's requests carry."""

    number: int = NO_GENERATION
    member_id: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Joiner:
    """One member, from the JoinGroup response to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class GroupProtocol(Protocol):
    """The protocol between the members, such as "consumer". Its bytes are opaque to the coordinator and the session."""

    protocol_type: str

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """The protocols (assignors) that this member supports, preferred first, with its metadata for the leader."""
        ...

    def assign(self, protocol: str, joiners: Sequence[Joiner], *, skip: bool) -> Mapping[str, bytes]:
        """Called on the leader: each member's assignment. `skip`: the members keep theirs; return none."""
        ...

    def assigned(self, generation: Generation, data: bytes, *, leader: bool) -> None:
        """Called with this member's assignment in a generation."""
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
        """The request to join the group or its next generation. Raises UnsupportedVersion (static members)."""
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
        """Process the JoinGroup response; returns its error. None: continue with `sync_request`."""
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
        """The request for this member's assignment; the leader's request has all assignments."""
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
        """Process the SyncGroup response; returns its error. None: the member is stable."""
        if response.error_code:
            return self.heard(self._error("SyncGroup", response.error_code))
        self._check_type(response.protocol_type, "SyncGroup")
        if response.protocol_name not in (None, self.generation.protocol):
            raise ProtocolFault("SyncGroup response is for another protocol", group=self.group)
        self.machine.step(ClassicEvent.SYNCED)
        self.protocol.assigned(self.generation, bytes(response.assignment), leader=self.leader)
        return None

    def heard(self, error: KafkaError) -> KafkaError:
        """Apply what an error in any response means for the membership; returns the error.

        After ILLEGAL_GENERATION the member keeps its id; if the coordinator does not know the member, it loses its id.
        """
        if error.reaction in (Reaction.JOIN_AFRESH, Reaction.FAIL):
            self.machine.step(ClassicEvent.LOST)
            keep = self.generation.member_id if error.code == ErrorCode.ILLEGAL_GENERATION else ""
            self.generation, self.leader = Generation(member_id=keep), False
        return error

    def left(self) -> None:
        """The member has left, or its session is going to time out."""
        self.machine.step(ClassicEvent.LEFT)
        self.generation, self.leader = Generation(), False

    def _error(self, what: str, code: int) -> KafkaError:
        return error_from_code(code, what, group=self.group)

    def _check_type(self, protocol_type: str | None, what: str) -> None:
        if protocol_type not in (None, self.protocol.protocol_type):
            raise ProtocolFault(f"{what} response is for groups of type {protocol_type!r}", group=self.group)


def heartbeat_request(group: str, who: Generation, instance_id: str | None, version: int) -> HeartbeatRequest:
    """The heartbeat of a member in its generation."""
    return HeartbeatRequest(
        group_id=group,
        generation_id=who.number,
        member_id=who.member_id,
        group_instance_id=instance_id if version >= _HEARTBEAT_FIRST_WITH_INSTANCES else None,
    )


def leave_request(group: str, who: Generation, instance_id: str | None, version: int, reason: str) -> LeaveGroupRequest:
    """The request to remove the member from the group."""
    if version < _LEAVE_FIRST_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=group, member_id=who.member_id)
    identity = LeaveGroupRequest.MemberIdentity(
        member_id=who.member_id, group_instance_id=instance_id, reason=reason[:_LONGEST_REASON]
    )
    return LeaveGroupRequest(group_id=group, members=[identity])
