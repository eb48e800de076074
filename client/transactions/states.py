"""The states of a transactional producer, as a transition table. Any other step raises IllegalStep.

    Uninitialized ─initialize─► Initializing ─initialized─► Ready ─begin─► InTransaction ◄─┐ work
                                     ▲                        ▲              │ │ │ └────────┘
                                     │ initialize             │ ended  commit│ │ │abort
                                     │ (a higher epoch)       ├── Committing ◄┘ │ └► Aborting ─ended─► Ready
                                     │                        │      │ fail     │ fail   ▲
                                     └── Ready, Committing,   │      ▼          ▼        │ abort
                                         Aborting, AbortableError   AbortableError ──────┘
    any ─fail for good─► FatalError

The states are those of KIP-98's transaction manager. After a commit whose outcome is unknown (no response before the
deadline, or an error that does not show what became of an earlier try) there is no abort: commit again, or initialize,
which decides it. Beginning is local: the coordinator learns of a transaction with its first partition or group.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "Uninitialized"
    INITIALIZING = "Initializing"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    COMMITTING = "Committing"
    ABORTING = "Aborting"
    ABORTABLE_ERROR = "AbortableError"
    FATAL_ERROR = "FatalError"


class Step(Enum):
    """The steps between the states."""

    INITIALIZE = "initialize"
    INITIALIZED = "initialized"
    BEGIN = "begin"
    WORK = "work"
    COMMIT = "commit"
    ABORT = "abort"
    ENDED = "ended"
    FAIL = "fail"
    FAIL_FOR_GOOD = "fail for good"


TRANSITIONS: Final[Mapping[tuple[State, Step], State]] = MappingProxyType(
    {
        (State.UNINITIALIZED, Step.INITIALIZE): State.INITIALIZING,
        # Again after a lost response: with the current producer id and epoch, or to take the transactional id over.
        (State.INITIALIZING, Step.INITIALIZE): State.INITIALIZING,
        (State.READY, Step.INITIALIZE): State.INITIALIZING,
        (State.COMMITTING, Step.INITIALIZE): State.INITIALIZING,
        (State.ABORTING, Step.INITIALIZE): State.INITIALIZING,
        (State.ABORTABLE_ERROR, Step.INITIALIZE): State.INITIALIZING,
        (State.INITIALIZING, Step.INITIALIZED): State.READY,
        (State.READY, Step.BEGIN): State.IN_TRANSACTION,
        (State.IN_TRANSACTION, Step.WORK): State.IN_TRANSACTION,
        (State.IN_TRANSACTION, Step.COMMIT): State.COMMITTING,
        (State.COMMITTING, Step.COMMIT): State.COMMITTING,
        (State.COMMITTING, Step.ENDED): State.READY,
        (State.IN_TRANSACTION, Step.ABORT): State.ABORTING,
        (State.ABORTABLE_ERROR, Step.ABORT): State.ABORTING,
        (State.ABORTING, Step.ABORT): State.ABORTING,
        (State.ABORTING, Step.ENDED): State.READY,
        (State.IN_TRANSACTION, Step.FAIL): State.ABORTABLE_ERROR,
        (State.COMMITTING, Step.FAIL): State.ABORTABLE_ERROR,
        (State.ABORTABLE_ERROR, Step.FAIL): State.ABORTABLE_ERROR,
        # A failure during an abort changes nothing: the records are being aborted anyway.
        (State.ABORTING, Step.FAIL): State.ABORTING,
    }
    | {(state, Step.FAIL_FOR_GOOD): State.FATAL_ERROR for state in State}
)


class IllegalStep(RuntimeError):
    """A step that the state does not allow: an error of the caller, not of the cluster."""

    def __init__(self, state: State, step: Step, remedy: str) -> None:
        super().__init__(state, step, remedy)
        self.state = state
        self.step = step
        self.remedy = remedy

    def __str__(self) -> str:
        return f"cannot {self.step.value} in state {self.state.value}: {self.remedy}"


_REMEDY: Final = {
    State.UNINITIALIZED: "call begin() first",
    State.INITIALIZING: "initialization has not ended; call begin() again",
    State.READY: "no transaction is open: call begin() first",
    State.IN_TRANSACTION: "commit or abort the open transaction first",
    State.COMMITTING: "it is unknown whether it was committed: call commit() again, or begin() to find out",
    State.ABORTING: "it is being aborted: call abort() again",
    State.ABORTABLE_ERROR: "the transaction has failed: call abort()",
    State.FATAL_ERROR: "this producer has failed: create a new one",
}


class StateMachine:
    """The current state. `take` applies a step, or raises IllegalStep and changes nothing."""

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED

    def allows(self, step: Step) -> bool:
        return (self.state, step) in TRANSITIONS

    def take(self, step: Step) -> State:
        following = TRANSITIONS.get((self.state, step))
        if following is None:
            raise IllegalStep(self.state, step, _REMEDY[self.state])
        self.state = following
        return following
