"""What may follow from an error code, and what follows from the code alone; by API: `client.cluster.error_policy`."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kseg.client.protocol import ErrorCode, UnknownErrorCode


class Reaction(Enum):
    """What follows from an error. The first six are done by whoever sends (`Cluster`), the others by the caller."""

    AGAIN = "send the same again to the same broker, after a pause"
    REFRESH = "refresh the metadata, then send to whom the request belongs then"
    FIND_COORDINATOR = "look the coordinator up, then send to it"
    REBOOTSTRAP = "forget the cluster and start over from the bootstrap list"
    NEW_SESSION = "open a new fetch session with a full fetch"
    TO_LEADER = "fetch from the leader instead of the replica"

    RESET_OFFSET = "the offset lies outside of the log: go on behind the loss, or fail, as the reader was told"
    REJOIN = "join the group again as the same member"
    JOIN_AFRESH = "forget member id and generation, and join the group as a new member"
    SPLIT = "send the records in smaller batches"
    NEW_PRODUCER = "take a new producer id or epoch, and count sequences from zero"
    ABORT = "abort the transaction; the next one may succeed"
    DONE = "what was asked for is so already"
    FAIL = "sending the same again changes nothing"

    @property
    def again(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self in _AGAIN


_AGAIN: Final = frozenset(
    {
        Reaction.AGAIN,
        Reaction.REFRESH,
        Reaction.FIND_COORDINATOR,
        Reaction.REBOOTSTRAP,
        Reaction.NEW_SESSION,
        Reaction.TO_LEADER,
    }
)


def by_code(code: ErrorCode | UnknownErrorCode) -> Reaction:
    """What the code alone says, whichever API answered it."""
    if code == ErrorCode.NOT_CONTROLLER:
        return Reaction.REFRESH  # Java's class for it says nothing of metadata, which is where the controller stands
    if code == ErrorCode.REBOOTSTRAP_REQUIRED:
        return Reaction.REBOOTSTRAP
    if code.refresh_coordinator:
        return Reaction.FIND_COORDINATOR
    if code.refresh_metadata:
        return Reaction.REFRESH
    return Reaction.AGAIN if code.retriable else Reaction.FAIL
