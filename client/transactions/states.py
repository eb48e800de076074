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


class TransactionState(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "Uninitialized"
    INITIALIZING = "Initializing"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    COMMITTING = "Committing"
    ABORTING = "Aborting"
    ABORTABLE_ERROR = "AbortableError"
    FATAL_ERROR = "FatalError"


class TransactionStep(Enum):
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


TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionStep], TransactionState]] = MappingProxyType(
    {
        (TransactionState.UNINITIALIZED, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        # Again after a lost response: with the current producer id and epoch, or to take the transactional id over.
        (TransactionState.INITIALIZING, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        (TransactionState.READY, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        (TransactionState.COMMITTING, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        (TransactionState.ABORTING, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        (TransactionState.ABORTABLE_ERROR, TransactionStep.INITIALIZE): TransactionState.INITIALIZING,
        (TransactionState.INITIALIZING, TransactionStep.INITIALIZED): TransactionState.READY,
        (TransactionState.READY, TransactionStep.BEGIN): TransactionState.IN_TRANSACTION,
        (TransactionState.IN_TRANSACTION, TransactionStep.WORK): TransactionState.IN_TRANSACTION,
        (TransactionState.IN_TRANSACTION, TransactionStep.COMMIT): TransactionState.COMMITTING,
        (TransactionState.COMMITTING, TransactionStep.COMMIT): TransactionState.COMMITTING,
        (TransactionState.COMMITTING, TransactionStep.ENDED): TransactionState.READY,
        (TransactionState.IN_TRANSACTION, TransactionStep.ABORT): TransactionState.ABORTING,
        (TransactionState.ABORTABLE_ERROR, TransactionStep.ABORT): TransactionState.ABORTING,
        (TransactionState.ABORTING, TransactionStep.ABORT): TransactionState.ABORTING,
        (TransactionState.ABORTING, TransactionStep.ENDED): TransactionState.READY,
        (TransactionState.IN_TRANSACTION, TransactionStep.FAIL): TransactionState.ABORTABLE_ERROR,
        (TransactionState.COMMITTING, TransactionStep.FAIL): TransactionState.ABORTABLE_ERROR,
        (TransactionState.ABORTABLE_ERROR, TransactionStep.FAIL): TransactionState.ABORTABLE_ERROR,
        # A failure during an abort changes nothing: the records are being aborted anyway.
        (TransactionState.ABORTING, TransactionStep.FAIL): TransactionState.ABORTING,
    }
    | {(state, TransactionStep.FAIL_FOR_GOOD): TransactionState.FATAL_ERROR for state in TransactionState}
)


class IllegalStep(RuntimeError):
    """A step that the state does not allow: an error of the caller, not of the cluster."""

    def __init__(self, state: TransactionState, step: TransactionStep, remedy: str) -> None:
        super().__init__(state, step, remedy)
        self.state = state
        self.step = step
        self.remedy = remedy

    def __str__(self) -> str:
        return f"cannot {self.step.value} in state {self.state.value}: {self.remedy}"


_REMEDY: Final = {
    TransactionState.UNINITIALIZED: "call begin() first",
    TransactionState.INITIALIZING: "initialization has not ended; call begin() again",
    TransactionState.READY: "no transaction is open: call begin() first",
    TransactionState.IN_TRANSACTION: "commit or abort the open transaction first",
    TransactionState.COMMITTING: "it is unknown whether it was committed: call commit() again, or begin() to find out",
    TransactionState.ABORTING: "it is being aborted: call abort() again",
    TransactionState.ABORTABLE_ERROR: "the transaction has failed: call abort()",
    TransactionState.FATAL_ERROR: "this producer has failed: create a new one",
}


class StateMachine:
    """The current state. `take` applies a step, or raises IllegalStep and changes nothing."""

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALIZED

    def allows(self, step: TransactionStep) -> bool:
        return (self.state, step) in TRANSITIONS

    def take(self, step: TransactionStep) -> TransactionState:
        following = TRANSITIONS.get((self.state, step))
        if following is None:
            raise IllegalStep(self.state, step, _REMEDY[self.state])
        self.state = following
        return following
