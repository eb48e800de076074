"""A client's reaction to an error code, by the API that returned it: each request's class has its `ERRORS`.

The default is the code's own classification, which is Java's (`error_codes`): refresh the metadata, find the
coordinator, or just retry. Where an API differs, its policy names the reaction. Every code that an API is known to
return is listed, so that the policy is documentation too; a code that is not listed has the default reaction. A code
that is newer than this client is never retried.

    ERRORS = error_policy(
        "NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED",     the default reactions
        MEMBER,                                           a policy that several APIs share (see below)
        FAIL="UNKNOWN_TOPIC_OR_PARTITION",                instead of the default
    )

Sources: the protocol guides' "possible error codes", the comments of Kafka's message definitions, and the
documentation of Java's response classes; tests compare the policies with all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from kseg.client.protocol.error_codes import ErrorCode, UnknownErrorCode


class Reaction(Enum):
    """The reaction to an error. The first six are done by `Cluster`, the others by the caller."""

    AGAIN = "retry at the same broker, after a backoff"
    REFRESH = "refresh the metadata, then send to the broker that is responsible now"
    FIND_COORDINATOR = "find the coordinator, then send to it"
    REBOOTSTRAP = "forget the cluster and start over from the bootstrap list"
    NEW_SESSION = "open a new fetch session with a full fetch"
    TO_LEADER = "fetch from the leader instead of the replica"

    RESET_OFFSET = "the offset lies outside of the log: continue after the loss, or fail, as the reader is configured"
    REJOIN = "join the group again as the same member"
    JOIN_AFRESH = "forget member id and generation, and join the group as a new member"
    SPLIT = "send the records in smaller batches"
    NEW_PRODUCER = "take a new producer id or epoch, and count sequences from zero"
    ABORT = "abort the transaction; the next one may succeed"
    DONE = "done already"
    FAIL = "not retriable"

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self in _RETRIABLE


_RETRIABLE: Final = frozenset(
    {
        Reaction.AGAIN,
        Reaction.REFRESH,
        Reaction.FIND_COORDINATOR,
        Reaction.REBOOTSTRAP,
        Reaction.NEW_SESSION,
        Reaction.TO_LEADER,
    }
)

ErrorPolicy: TypeAlias = Mapping[ErrorCode, Reaction]

NO_ERRORS: Final[ErrorPolicy] = MappingProxyType({})


def reaction_by_code(code: ErrorCode | UnknownErrorCode) -> Reaction:
    """The default reaction to a code, whichever API returned it."""
    if code == ErrorCode.NOT_CONTROLLER:
        return Reaction.REFRESH  # metadata names the controller; Java's exception class does not say so
    if code == ErrorCode.REBOOTSTRAP_REQUIRED:
        return Reaction.REBOOTSTRAP
    if code.refresh_coordinator:
        return Reaction.FIND_COORDINATOR
    if code.refresh_metadata:
        return Reaction.REFRESH
    return Reaction.AGAIN if code.retriable else Reaction.FAIL


def error_policy(codes: str = "", *shared: ErrorPolicy, **reactions: str) -> ErrorPolicy:
    """The reaction to each code: the default for `codes`, then `shared` policies, then codes by a reaction's name."""
    policy = {ErrorCode[name]: reaction_by_code(ErrorCode[name]) for name in codes.split()}
    for other in shared:
        policy |= other
    for reaction, names in reactions.items():
        policy |= {ErrorCode[name]: Reaction[reaction] for name in names.split()}
    return MappingProxyType(policy)


# --- error codes that APIs of several modules return

COORDINATOR: Final = "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS"
LEADER: Final = (
    "NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION FENCED_LEADER_EPOCH "
    "UNKNOWN_LEADER_EPOCH KAFKA_STORAGE_ERROR UNKNOWN_SERVER_ERROR"
)
CONTROLLER: Final = "NOT_CONTROLLER CLUSTER_AUTHORIZATION_FAILED REQUEST_TIMED_OUT INVALID_REQUEST UNSUPPORTED_VERSION"
GROUP: Final = f"{COORDINATOR} GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID"
DESCRIBED_GROUP: Final = f"{GROUP} GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED"
TRANSACTION: Final = (
    f"{COORDINATOR} INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_EPOCH PRODUCER_FENCED INVALID_TXN_STATE "
    "CONCURRENT_TRANSACTIONS TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
)

ABORTABLE: Final = error_policy(ABORT="TRANSACTION_ABORTABLE")
#: The errors of a classic group's member that is not in the current generation. A static member that was replaced
#: (FENCED_INSTANCE_ID) must not rejoin: the two would fence each other forever.
MEMBER: Final = error_policy(
    JOIN_AFRESH="UNKNOWN_MEMBER_ID ILLEGAL_GENERATION", REJOIN="REBALANCE_IN_PROGRESS", FAIL="FENCED_INSTANCE_ID"
)
#: The same for the protocols in which the coordinator assigns (KIP-848, KIP-932, KIP-1071).
NEW_MEMBER: Final = error_policy(JOIN_AFRESH="UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH", FAIL="UNRELEASED_INSTANCE_ID")
