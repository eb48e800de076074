"""The states of a group member, as transition tables: (state, event) -> state. Any other step raises IllegalMemberStep.

CLASSIC: the classic protocol (Java's AbstractCoordinator):

    Unjoined ─join─► PreparingRebalance ─joined─► CompletingRebalance ─synced─► Stable
        ▲                 ▲      │                        │                       │
        └──── lost ───────┼──────┴────── lost ────────────┴──────── lost ─────────┤
                          └────────────── rebalance ──────┴────── rebalance ──────┘

CONSUMER: the new protocol (KIP-848). The states are those of Java's `MemberState`, its two states for leaving merged:

    Unsubscribed ─subscribe─► Joining ─welcomed─► Stable ─assigned─► Reconciling ─reconciled─► Acknowledging
                                                    ▲                                                │
                                                    └───────────────── acknowledged ─────────────────┘
    removed by the coordinator: Fenced ─released─► Joining         not polled in time: Stale ─polled─► Joining
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class IllegalMemberStep(RuntimeError):
    """An event that cannot happen in this state: a bug in this client, never an error of the cluster."""


class ClassicState(Enum):
    """The state of a member of a classic group."""

    UNJOINED = "Unjoined"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicEvent(Enum):
    """An event in the life of a classic group's member."""

    JOIN = "a JoinGroup request goes out for a member that is in no generation"
    ID_GIVEN = "the coordinator gives a member id and wants it back (MEMBER_ID_REQUIRED)"
    JOINED = "the JoinGroup answer names a generation"
    SYNCED = "the SyncGroup answer brings the assignment"
    REBALANCE = "the member has to join the next generation"
    LOST = "the coordinator does not know the member or its generation any more, or has fenced it"
    LEFT = "the member has left"


class ConsumerState(Enum):
    """The state of a member of a group of the new protocol."""

    UNSUBSCRIBED = "Unsubscribed"
    JOINING = "Joining"
    RECONCILING = "Reconciling"
    ACKNOWLEDGING = "Acknowledging"
    STABLE = "Stable"
    FENCED = "Fenced"
    STALE = "Stale"
    LEAVING = "Leaving"
    FATAL = "Fatal"


class ConsumerEvent(Enum):
    """An event in the life of a member with the new protocol."""

    SUBSCRIBE = "it begins"
    WELCOMED = "the coordinator answers a member that has nothing to change"
    ASSIGNED = "the target assignment differs from what the member owns"
    RECONCILED = "the member owns its target assignment and has not sent that yet"
    ACKNOWLEDGED = "a heartbeat with the owned partitions was answered"
    FENCED = "the coordinator has removed the member (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID)"
    RELEASED = "a fenced member has revoked its partitions"
    LEAVE = "the leaving heartbeat goes out"
    LEFT = "the leaving heartbeat is answered, or not awaited"
    EXPIRED = "the application did not poll within max.poll.interval.ms; the member has left the group"
    POLLED = "the application polls again, and has revoked the member's partitions"
    FAILED = "an error that joining again does not solve"


Table = Mapping[tuple[S, E], S]

_C, _E = ClassicState, ClassicEvent

CLASSIC: Final[Table[ClassicState, ClassicEvent]] = MappingProxyType(
    {
        (_C.UNJOINED, _E.JOIN): _C.PREPARING_REBALANCE,
        (_C.UNJOINED, _E.LOST): _C.UNJOINED,
        (_C.UNJOINED, _E.LEFT): _C.UNJOINED,
        (_C.PREPARING_REBALANCE, _E.ID_GIVEN): _C.PREPARING_REBALANCE,
        (_C.PREPARING_REBALANCE, _E.REBALANCE): _C.PREPARING_REBALANCE,
        (_C.PREPARING_REBALANCE, _E.JOINED): _C.COMPLETING_REBALANCE,
        (_C.PREPARING_REBALANCE, _E.LOST): _C.UNJOINED,
        (_C.PREPARING_REBALANCE, _E.LEFT): _C.UNJOINED,
        (_C.COMPLETING_REBALANCE, _E.SYNCED): _C.STABLE,
        (_C.COMPLETING_REBALANCE, _E.REBALANCE): _C.PREPARING_REBALANCE,
        (_C.COMPLETING_REBALANCE, _E.LOST): _C.UNJOINED,
        (_C.COMPLETING_REBALANCE, _E.LEFT): _C.UNJOINED,
        (_C.STABLE, _E.REBALANCE): _C.PREPARING_REBALANCE,
        (_C.STABLE, _E.LOST): _C.UNJOINED,
        (_C.STABLE, _E.LEFT): _C.UNJOINED,
    }
)

_S, _V = ConsumerState, ConsumerEvent
_IN_GROUP: Final = (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)

CONSUMER: Final[Table[ConsumerState, ConsumerEvent]] = MappingProxyType(
    {
        (_S.UNSUBSCRIBED, _V.SUBSCRIBE): _S.JOINING,
        (_S.JOINING, _V.WELCOMED): _S.STABLE,
        (_S.JOINING, _V.ASSIGNED): _S.RECONCILING,
        (_S.STABLE, _V.ASSIGNED): _S.RECONCILING,
        (_S.ACKNOWLEDGING, _V.ASSIGNED): _S.RECONCILING,
        (_S.RECONCILING, _V.ASSIGNED): _S.RECONCILING,
        (_S.RECONCILING, _V.RECONCILED): _S.ACKNOWLEDGING,
        (_S.ACKNOWLEDGING, _V.ACKNOWLEDGED): _S.STABLE,
        **{(state, _V.FENCED): _S.FENCED for state in _IN_GROUP},
        (_S.FENCED, _V.RELEASED): _S.JOINING,
        **{(state, _V.EXPIRED): _S.STALE for state in _IN_GROUP},
        (_S.STALE, _V.POLLED): _S.JOINING,
        **{(state, _V.LEAVE): _S.LEAVING for state in _IN_GROUP},
        (_S.LEAVING, _V.LEFT): _S.UNSUBSCRIBED,
        **{(state, _V.LEFT): _S.UNSUBSCRIBED for state in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE)},
        **{(state, _V.FAILED): _S.FATAL for state in (*_IN_GROUP, _S.UNSUBSCRIBED, _S.LEAVING)},
    }
)


class Machine(Generic[S, E]):
    """A state machine: the current state, and its transition table."""

    def __init__(self, table: Table[S, E], start: S) -> None:
        self._table = table
        self.state = start

    def step(self, event: E) -> S:
        """Apply an event; returns the new state. Raises IllegalMemberStep if the table has no such step."""
        new = self._table.get((self.state, event))
        if new is None:
            raise IllegalMemberStep(f"{event.name} cannot happen to a member that is {self.state.value}")
        self.state = new
        return new

    def allows(self, event: E) -> bool:
        return (self.state, event) in self._table
